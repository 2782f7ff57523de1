"""`pullback tour`: the stories, run live."""

import importlib.metadata
import importlib.util
import platform
from pathlib import Path
from typing import Annotated

import typer

from pullback.cli.status import Status


def tour(
    only: Annotated[
        list[int] | None, typer.Argument(help="Numbers of the stories to tell; all by default.")
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option(
            help="Write them to this file too: one page that needs no network.", dir_okay=False
        ),
    ] = None,
) -> None:
    """Questions about gradients: stock TensorFlow, pullback, and the truth."""
    if importlib.util.find_spec("tensorflow") is None:
        raise typer.BadParameter(
            "the tour runs TensorFlow, which is not installed: pip install 'pullback[tensorflow]'"
        )
    from pullback.cli.outputs import unwritable, write
    from pullback.cli.terminal import console as console_of
    from pullback.tour import Told, find_stories, load_story
    from pullback.tour._page import as_page
    from pullback.tour._render import print_story

    console = console_of()
    paths = dict(enumerate(find_stories(), start=1))
    chosen = only or list(paths)
    if unknown := [number for number in chosen if number not in paths]:
        raise typer.BadParameter(f"there is no story {unknown[0]}: choose from 1 to {len(paths)}.")
    if why := unwritable({"--html": html}):
        raise typer.BadParameter(why)
    told: list[Told] = []
    for number in chosen:
        story = load_story(paths[number])
        told.append(Told(number, paths[number], story, story.tell()))
        print_story(story, told[-1].outcomes, title=f"{number}.", console=console)
    right = sum(one.ours_is_right for one in told)
    stock = sum(one.stock_is_right for one in told)
    console.print(
        f"True numbers on every line: pullback {right} of {len(chosen)} stories, "
        f"stock TensorFlow {stock} of {len(chosen)}."
    )
    if html is not None:
        write(html, as_page(told, _made_with()))
        console.print(f"Written to {html}.", soft_wrap=True)
    raise typer.Exit(Status.FINE if right == len(chosen) else Status.WRONG)


def _made_with() -> str:
    names = {"pullback": "pullback", "tensorflow": "TensorFlow", "tensorflow-cpu": "TensorFlow"}
    found = {}
    for package, name in names.items():
        try:
            found[name] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return ", ".join(
        f"{name} {version}"
        for name, version in {**found, "Python": platform.python_version()}.items()
    )
