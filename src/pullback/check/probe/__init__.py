"""The function under check: what is asked of an engine about it, and its answers as arrays and plain data."""

from pullback.check.probe.protocol import Array as Array
from pullback.check.probe.protocol import Arrays as Arrays
from pullback.check.probe.protocol import Claims as Claims
from pullback.check.probe.protocol import Facts as Facts
from pullback.check.probe.protocol import InMode as InMode
from pullback.check.probe.protocol import Leaf as Leaf
from pullback.check.probe.protocol import OutsideDomain as OutsideDomain
from pullback.check.probe.protocol import Probe as Probe
from pullback.check.probe.protocol import Probes as Probes
from pullback.check.probe.protocol import Raised as Raised
from pullback.check.probe.protocol import RuleFault as RuleFault
from pullback.check.probe.protocol import Step as Step
from pullback.check.probe.protocol import Steps as Steps
from pullback.check.probe.protocol import StepValues as StepValues
from pullback.check.probe.protocol import Unsupported as Unsupported
from pullback.check.probe.protocol import Why as Why
from pullback.check.probe.protocol import WrongDtype as WrongDtype
from pullback.check.probe.protocol import WrongShape as WrongShape
