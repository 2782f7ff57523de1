"""The contract: what every engine must do, as one table of cases that runs in every mode.

An engine author describes the framework in an `Adapter` and runs the table:

    adapter = MyAdapter()

    @pytest.mark.parametrize("case, mode", contract.cases(adapter), ids=str)
    def test_contract(case, mode):
        contract.run(case, mode, adapter)

Nothing is skipped: what an engine cannot do it declares in `Adapter.cannot`, and must then refuse with that reason.
An engine is done when the table passes. `python -m pullback.testing.contract module:Adapter` prints it.
"""

from pullback.testing.contract import derivatives as derivatives
from pullback.testing.contract import lifetimes as lifetimes
from pullback.testing.contract import overrides as overrides
from pullback.testing.contract import refusals as refusals
from pullback.testing.contract import results as results
from pullback.testing.contract.adapter import CAPABILITIES as CAPABILITIES
from pullback.testing.contract.adapter import Adapter as Adapter
from pullback.testing.contract.adapter import Mode as Mode
from pullback.testing.contract.case import TABLE as TABLE
from pullback.testing.contract.case import Case as Case
from pullback.testing.contract.case import Refusal as Refusal
from pullback.testing.contract.running import cases as cases
from pullback.testing.contract.running import run as run
