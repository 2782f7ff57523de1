"""`pullback targets`: what an override can name in a model or function."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pullback.cli.status import Status

if TYPE_CHECKING:
    from pullback._listing import Target, Targets


class Kind(enum.StrEnum):
    """What `--kind` takes, and what rows of this kind are called in the list."""

    FUNCTION = "function"
    OP = "op"
    CLASS = "class"
    LAYER = "layer"

    @property
    def of_rows(self) -> str:
        """As `pb.targets` says it."""
        return "layer class" if self is Kind.CLASS else self.value


def targets(
    model: Annotated[
        str,
        typer.Argument(help="A .keras file, a SavedModel folder, module:name, or file.py:name."),
    ],
    kind: Annotated[
        list[Kind] | None, typer.Option(help="List these alone; may be given several times.")
    ] = None,
    match: Annotated[
        str, typer.Option("-k", "--match", help="List what has this in its name or its layer's.")
    ] = "",
    inputs: Annotated[
        list[str] | None,
        typer.Option("--input", help="Dtype and shape of an argument, such as 'int32[2, 16]'."),
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="Print every row: else layers that are alike share one.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the data, for programs.")] = False,
) -> None:
    """List what an override can name in MODEL: functions, op types, layer classes and layers, with counts.

    The model is run once, with arguments that are given beside it (pullback_inputs), that it says it takes, or that
    --input describes. Status 0: listed; 2: it did not run, or nothing is left of the list.
    """
    from pullback._listing_text import as_text
    from pullback.cli.calls import NotRun, refuse, run_target
    from pullback.cli.terminal import echo

    try:
        found, arguments = run_target(model, _listed, inputs or ())
        chosen = _chosen(replace(found, name=_name(model, found.name)), kind or (), match)
    except NotRun as error:
        refuse(model, error)
        raise typer.Exit(Status.UNDECIDED) from error
    if json:
        echo(_as_json(chosen, arguments))
        return
    echo("\n".join(map(_row, chosen)) if every else as_text(chosen, "`--all`"))
    if arguments and not every:
        echo(f"run with {arguments}; --input gives others")


def _name(target: str, name: str) -> str:
    """A model of a file is called after the file: what it was called when it was written is often nothing."""
    return Path(target).name if Path(target).exists() else name


def _listed(function: Any, call: Any, names: Any) -> Targets:
    from pullback._override import list_targets

    args, kwargs = call
    return list_targets(function, args, kwargs, names)


def _chosen(found: Targets, kinds: Sequence[Kind], match: str) -> Targets:
    """The rows that were asked for; none is an error that says what there is."""
    from pullback.cli.calls import NotRun

    wanted = [kind.of_rows for kind in kinds]
    rows = [
        row
        for row in found
        if (not wanted or row.kind in wanted)
        and any(match.lower() in text.lower() for text in (row.expression, *row.where))
    ]
    if not rows:
        kept = f" of kind {' or '.join(kinds)}" if kinds else ""
        asked = f" with {match!r} in its name" if match else ""
        raise NotRun(f"has nothing{kept}{asked} among {len(found)} targets: leave out --kind or -k")
    return replace(found, rows=tuple(rows))


def _row(row: Target) -> str:
    return f"{row.kind}\t{row.expression}\t{row.count}\t{', '.join(row.where)}"


def _as_json(found: Targets, arguments: str) -> str:
    from json import dumps

    keys = ("kind", "expression", "count", "where", "overridden")
    rows = [{key: getattr(row, key) for key in keys} for row in found]
    return dumps({"name": found.name, "arguments": arguments, "targets": rows}, indent=2)
