"""The core is tested on the fake engine alone."""

import pytest

from tests.core import fake_engine


@pytest.fixture(autouse=True)
def engine(monkeypatch: pytest.MonkeyPatch) -> fake_engine.FakeEngine:
    return fake_engine.install(monkeypatch)
