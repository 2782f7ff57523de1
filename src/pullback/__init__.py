"""Change any gradient. Know it is the one you meant."""

from pullback import functions as functions
from pullback import keras as keras
from pullback import rules as rules
from pullback._define import custom_gradient as custom_gradient
from pullback._define import with_gradient as with_gradient
from pullback._define import with_partials as with_partials
from pullback._inputs import inputs as inputs
from pullback._override import export as export
from pullback._override import override as override
from pullback._override import targets as targets
from pullback._overriding import Override as Override
from pullback._rule import DEFAULT as DEFAULT
from pullback._targets import inside as inside
from pullback._targets import where as where
from pullback.check.api import check as check
from pullback.check.report import Report as Report
from pullback.errors import CheckFailed as CheckFailed
from pullback.errors import PullbackError as PullbackError
from pullback.errors import RuleResultError as RuleResultError
from pullback.errors import UnmatchedOverride as UnmatchedOverride
from pullback.errors import UnreachableOverride as UnreachableOverride
from pullback.explain.api import explain as explain
from pullback.explain.flow import Flow as Flow
from pullback.saliency.api import saliency as saliency
from pullback.saliency.result import Saliency as Saliency
