"""Is a gradient right? A verdict from the function itself, with a diagnosis."""

from pullback.check.api import check as check
from pullback.check.report import Coverage as Coverage
from pullback.check.report import Finding as Finding
from pullback.check.report import Line as Line
from pullback.check.report import Report as Report
