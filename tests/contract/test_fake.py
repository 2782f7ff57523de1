"""The contract, kept by the fake engine."""

import pytest

from pullback.testing import contract
from tests.contract.fake_adapter import ADAPTER
from tests.core import fake_engine


@pytest.fixture(autouse=True)
def _engine(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_engine.install(monkeypatch)


@pytest.mark.parametrize("case, mode", contract.cases(ADAPTER), ids=str)
def test_contract(case, mode) -> None:
    contract.run(case, mode, ADAPTER)
