"""The contract: what every engine must do, as one table of cases that runs in every mode of the engine.

The author of an engine describes the framework in an `Adapter` and runs the table:

    ADAPTER = MyAdapter()

    @pytest.mark.parametrize("case, mode", contract.cases(ADAPTER), ids=str)
    def test_contract(case, mode):
        contract.run(case, mode, ADAPTER)

Nothing is skipped: what an engine cannot do it declares in `cannot`, and must then refuse with that reason. An engine
is done when the table passes. docs/engines.md tells the whole story.
"""

from pullback.testing.contract import _overrides as _overrides
from pullback.testing.contract import _table as _table
from pullback.testing.contract.adapter import CAPABILITIES as CAPABILITIES
from pullback.testing.contract.adapter import Adapter as Adapter
from pullback.testing.contract.adapter import Mode as Mode
from pullback.testing.contract.suite import TABLE as TABLE
from pullback.testing.contract.suite import Case as Case
from pullback.testing.contract.suite import cases as cases
from pullback.testing.contract.suite import run as run
