"""Names out of files become objects in one place: nothing else in the source looks names up, imports or runs text."""

import ast
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "pullback"
BUILTINS = {"eval", "exec", "compile", "__import__"}
BY_NAME = {
    *("import_module", "exec_module", "spec_from_file_location", "func_load"),
    *("deserialize_keras_object", "load_model", "enable_unsafe_deserialization"),
}
OF_MODULES = {"pickle": {"load", "loads"}, "marshal": {"load", "loads"}, "np": {"load"}}
READS_FILES = ("engines/tensorflow/keras_support/", "engines/tensorflow/attach/", "names_in_files")


def lookups(path: Path, source: Path) -> Iterator[str]:
    """What in a file makes objects, or runs code, by a name or text that the program does not hold."""
    place = path.relative_to(source).as_posix()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Subscript) and ast.unparse(node.value) == "sys.modules":
            yield from [] if _is_fixed([node.slice]) else [f"{place} sys.modules[]"]
        elif isinstance(node, ast.Call):
            yield from (f"{place} {kind}" for kind in _kinds(node, place))
        elif isinstance(node, ast.keyword) and node.arg == "safe_mode":
            yield f"{place} safe_mode"


def _kinds(call: ast.Call, place: str) -> Iterator[str]:
    owner, _, name = ast.unparse(call.func).rpartition(".")
    if name in (BY_NAME if owner else BY_NAME | BUILTINS) and not _is_fixed(call.args[:1]):
        yield name
    if name in OF_MODULES.get(owner, ()):
        yield f"{owner}.{name}"
    if name == "reduce" and ast.unparse(call.args[0]) == "getattr":
        yield "reduce(getattr)"
    if name == "getattr" and place.startswith(READS_FILES) and not _is_fixed(call.args[1:2]):
        yield "getattr"


def _is_fixed(arguments: list[ast.expr]) -> bool:
    return all(isinstance(each, ast.Constant) for each in arguments) and bool(arguments)


def found_in(source: Path) -> set[str]:
    return {each for path in sorted(source.rglob("*.py")) for each in lookups(path, source)}


OURS = "names and code of the program itself"
USERS = "what the user names on the command line or in a call"
ALLOWED = {
    "__init__.py import_module": OURS,
    "__init__.py sys.modules[]": OURS,
    "_engine.py import_module": OURS,
    "_names.py import_module": "for a file that the user trusts",
    "_names.py reduce(getattr)": "names that objects say of themselves; and for a file that the user trusts",
    "_names.py sys.modules[]": "as above",
    "_patch.py compile": OURS,
    "_patch.py exec": OURS,
    "audit/confirm.py exec": OURS,
    "cli/__init__.py import_module": OURS,
    "cli/auditing.py import_module": OURS,
    "cli/homes.py sys.modules[]": USERS,
    "cli/notebook.py compile": USERS,
    "cli/notebook.py eval": USERS,
    "cli/serving.py pickle.load": "what the command itself asks of its process",
    "cli/target.py exec_module": USERS,
    "cli/target.py import_module": USERS,
    "cli/target.py spec_from_file_location": USERS,
    "cli/target.py sys.modules[]": USERS,
    "engines/tensorflow/attach/transposing.py getattr": OURS,
    "engines/tensorflow/auditing/calls.py eval": OURS,
    "engines/tensorflow/auditing/calls.py exec": OURS,
    "engines/tensorflow/programs/lines.py sys.modules[]": OURS,
    "engines/tensorflow/keras_support/links.py getattr": OURS,
    "engines/tensorflow/keras_support/quantize_layer.py getattr": OURS,
    "engines/tensorflow/names_in_files.py deserialize_keras_object": "the one place",
    "engines/tensorflow/override/places.py sys.modules[]": OURS,
    "engines/tensorflow/reading.py load_model": "in Keras' safe mode",
    "saliency/views/figure.py import_module": OURS,
    "tour/_story.py exec_module": USERS,
    "tour/_story.py spec_from_file_location": USERS,
    "tour/_story.py sys.modules[]": USERS,
}


def test_names_are_looked_up_in_one_place() -> None:
    assert found_in(SOURCE) == set(ALLOWED)


def test_that_test_can_fail(tmp_path: Path) -> None:
    lines = {
        "a.py": "getattr(keras.ops, name)",
        "b.py": "functools.reduce(getattr, names, module)",
        "c.py": "importlib.import_module(config['module'])",
        "d.py": "sys.modules[config['module']]",
        "e.py": "keras.saving.deserialize_keras_object(config)",
        "f.py": "keras.models.load_model(path, safe_mode=False)",
        "g.py": "eval(config['code'])",
        "h.py": "marshal.loads(code), pickle.load(file), np.load(path)",
        "i.py": "getattr(keras.ops, 'relu'), sys.modules['keras'], re.compile(pattern)",
    }
    folder = tmp_path / "engines" / "tensorflow" / "attach"
    folder.mkdir(parents=True)
    for name, line in lines.items():
        (folder / name).write_text(line, encoding="utf-8")
    counts = [len(set(lookups(folder / name, tmp_path))) for name in lines]
    assert counts == [1, 1, 1, 1, 1, 2, 1, 3, 0]
