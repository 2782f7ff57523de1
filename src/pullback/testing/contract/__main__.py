"""`python -m pullback.testing.contract module:Adapter` prints the contract as a table."""

from __future__ import annotations

import importlib
import sys
from typing import Any

from rich.console import Console

from pullback.testing.contract import Adapter, cases, run


def main(name: str) -> int:
    """Run every case; how many failed."""
    module, _, attribute = name.partition(":")
    adapter: Adapter = getattr(importlib.import_module(module), attribute)()
    console, failed = Console(), 0
    for case, mode in cases(adapter):
        outcome: Any = _failure(case, mode, adapter)
        failed += outcome is not None
        mark = "✓" if outcome is None else "✗"
        console.print(f"{mark} {case} [{mode}]", outcome or "", markup=False, highlight=False)
    console.print(f"{failed} failed" if failed else "the contract holds")
    return failed


def _failure(case: Any, mode: Any, adapter: Adapter) -> Exception | None:
    try:
        run(case, mode, adapter)
    except Exception as error:
        return error
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]) > 0)
