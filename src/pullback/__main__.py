"""`python -m pullback` is the `pullback` command."""

from pullback.cli import main

main()
