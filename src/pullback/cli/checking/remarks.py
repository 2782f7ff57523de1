"""What there is to say of a file that was loaded: what ended it, and which parts of a notebook were not run."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

from pullback.cli import notebook
from pullback.cli.checking.outcome import Remark
from pullback.cli.checking.places import Place
from pullback.cli.target import ending_of, reason_and_place


def remarks_on(module: ModuleType, place: Place) -> tuple[Remark, ...]:
    """In the order in which it happened."""
    path = Path(place.target)
    remarks = _of_notebook(notebook.read(path)) if path.suffix == notebook.SUFFIX else []
    if (ending := ending_of(module)) is not None:
        text, where = reason_and_place(ending, place.target)
        # a program that is through ends like that; what raises may have had more to define
        is_open = not isinstance(ending, SystemExit)
        said = f"{text}  ({where}): what it had defined by then was checked"
        remarks.append(Remark(said, is_open))
    return tuple(remarks)


def _of_notebook(book: notebook.Notebook) -> list[Remark]:
    left_out = [f"cell {c.number}:{line}" for c in book.cells for line in c.left_out]
    remarks = [
        Remark(f"cell {cell.number} is no Python and was left out: {cell.fault}", is_open=True)
        for cell in book.cells
        if cell.fault
    ]
    if left_out:
        remarks.append(
            Remark(f"lines for IPython or the shell were left out: {', '.join(left_out)}")
        )
    return remarks
