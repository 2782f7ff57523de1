"""`pullback tour`: the stories, run live."""

import importlib.util
from typing import Annotated

import typer
from rich.console import Console

from pullback.tour import find_stories, load_story
from pullback.tour._render import print_story


def tour(
    only: Annotated[
        list[int] | None, typer.Argument(help="Numbers of the stories to tell; all by default.")
    ] = None,
) -> None:
    """Questions about gradients: stock TensorFlow, pullback, and the truth."""
    if importlib.util.find_spec("tensorflow") is None:
        raise typer.BadParameter(
            "the tour runs TensorFlow, which is not installed: pip install 'pullback[tensorflow]'"
        )
    console = Console()
    paths = dict(enumerate(find_stories(), start=1))
    chosen = only or list(paths)
    if unknown := [number for number in chosen if number not in paths]:
        raise typer.BadParameter(f"there is no story {unknown[0]}: choose from 1 to {len(paths)}.")
    right = stock_right = 0
    for number in chosen:
        story = load_story(paths[number])
        outcomes = story.tell()
        right += print_story(story, outcomes, title=f"{number}.", console=console)
        stock_right += all(outcome.stock.right for outcome in outcomes)
    console.print(
        f"True numbers on every line: pullback {right} of {len(chosen)} stories, "
        f"stock TensorFlow {stock_right} of {len(chosen)}."
    )
    raise typer.Exit(right < len(chosen))
