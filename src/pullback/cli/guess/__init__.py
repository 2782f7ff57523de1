"""Arguments for a function of which nobody has said with what it runs.

Each parameter is asked for in turn: its annotation, its default, its docstring, its name, and what the source does with
it (`reading`). What is left open is tried (`calls`).
"""

from pullback.cli.guess.calls import DOUBTFUL as DOUBTFUL
from pullback.cli.guess.calls import NOT_FINITE as NOT_FINITE
from pullback.cli.guess.calls import Guess as Guess
from pullback.cli.guess.calls import guesses as guesses
