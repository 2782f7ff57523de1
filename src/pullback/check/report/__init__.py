"""The outcome of a check: data, and its text."""

from pullback.check.report.data import Coverage as Coverage
from pullback.check.report.data import Finding as Finding
from pullback.check.report.data import FindingKind as FindingKind
from pullback.check.report.data import Line as Line
from pullback.check.report.data import Picture as Picture
from pullback.check.report.data import Report as Report
