"""The version of what is installed; `pyproject.toml` is where it is written."""

from importlib import metadata

try:
    __version__ = metadata.version("pullback")
except metadata.PackageNotFoundError:  # the source was copied, not installed
    __version__ = "0+unknown"
