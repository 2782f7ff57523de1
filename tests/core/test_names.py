"""References by module and name: what is found again, what is not, and what is imported for it."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pullback._names import Reference, find, find_for_trusted_file, is_found, reference_to


def top_level() -> None:
    """A function to be found."""


class Holder:
    @staticmethod
    def method() -> None:
        """A function to be found."""


def local() -> Any:
    def inside() -> None:
        """Not to be found."""

    return inside


shadowed = top_level


def _renamed() -> None:
    """Its name leads to another object."""


_renamed.__qualname__ = "top_level"


@pytest.mark.parametrize("value", [top_level, Holder, Holder.method, len, Path.joinpath])
def test_an_object_of_a_module_is_found_again(value: Any) -> None:
    assert find(reference_to(value)) is value
    assert is_found(value)


@pytest.mark.parametrize("value", [local(), lambda: None, _renamed, 3, object(), Holder()])
def test_an_object_without_a_name_of_its_own_is_not(value: Any) -> None:
    assert not is_found(value)


def test_a_reference_names_the_object_and_not_the_variable() -> None:
    assert reference_to(shadowed) == Reference(__name__, "top_level")
    assert reference_to(Holder.method) == Reference(__name__, "Holder.method")


@pytest.mark.parametrize(
    "reference",
    [Reference("no_such_module", "f"), Reference(__name__, "f"), Reference(__name__, "Holder.f")],
)
def test_what_is_missing_is_none(reference: Reference) -> None:
    assert find(reference) is None


def test_nothing_is_imported() -> None:
    program = (
        "import sys; from pullback._names import Reference, find;"
        "print(find(Reference('colorsys', 'rgb_to_hsv')), 'colorsys' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.split() == ["None", "False"], done.stderr


def test_for_a_trusted_file_the_module_of_a_rule_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "rules_of_a_file.py").write_text(
        "from json import loads\ndef rule(dy): return dy\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    reference = Reference("rules_of_a_file", "rule")
    assert find(reference) is None
    assert find_for_trusted_file(reference)(3) == 3
    # what it has from elsewhere is not its own
    assert find_for_trusted_file(Reference("rules_of_a_file", "missing")) is None
    monkeypatch.delitem(sys.modules, "rules_of_a_file")
    assert find_for_trusted_file(Reference("rules_of_a_file", "loads")) is None


def test_no_module_of_python_is_imported_for_a_trusted_file() -> None:
    program = (
        "import sys; from pullback._names import Reference, find_for_trusted_file;"
        "print(find_for_trusted_file(Reference('colorsys', 'rgb_to_hsv')), 'colorsys' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.split() == ["None", "False"], done.stderr
