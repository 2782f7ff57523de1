"""Calls that cannot be made from definitions and signatures, as lists; and what cannot be called at all."""

import functools
from importlib import resources

# Ops that cannot be called by themselves, by how their names begin.
_NOT_ALONE = {
    ("Nccl",): "needs several GPUs",
    ("Cudnn",): "needs a GPU",
    ("AllToAll", "CollectivePermute", "CrossReplicaSum", "TPU"): "needs a TPU",
    ("Ref", "Switch", "Merge", "Enter", "Exit", "NextIteration"): "is part of a version 1 loop",
    ("TensorArray", "Stack", "SparseMatrix"): "works on a handle, which holds the numbers",
    ("Assign", "Scatter"): "writes to a reference variable of a version 1 graph",
    ("LookupTable", "LoadAndRemapMatrix"): "reads a table or a file",
    ("If", "StatelessIf", "Case", "StatelessCase", "While", "StatelessWhile"): "runs functions",
    ("EagerPyFunc", "PyFunc", "ReduceDataset"): "runs functions",
    ("Sdca",): "is an optimiser, not a function",
    ("Debug",): "is part of the debugger",
    ("SparseAddGrad",): "is the gradient of SparseAdd, which is audited",
    ("CTCBeamSearchDecoder", "CTCGreedyDecoder"): "decodes: what it gives are labels",
}
# Layers that compute no numbers, and why.
_NOT_NUMBERS = {
    ("CategoryEncoding", "Discretization", "Hash", "IntegerLookup", "StringLookup", "TextVector"): (
        "gives categories, which have no gradient"
    ),
    ("FlaxLayer", "JaxLayer", "TFSMLayer", "TorchModuleWrapper"): "runs what is not Keras",
    ("InputLayer", "Wrapper", "Pipeline", "MaxNumBoundingBoxes"): "computes nothing by itself",
}
_AUGMENTATION = "changes images at random, before training"


@functools.cache
def recipes(kind: str) -> dict[str, list[str]]:
    """A list as it is written in a file: what is tried, by the name of an op, function, layer, loss or parameter."""
    text = resources.files(__name__).joinpath(f"{kind}.txt").read_text("utf-8")
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            name, _, call = line.partition(":")
            found.setdefault(name, []).append(call.strip())
    return found


def why_not_alone(op: str) -> str:
    """Why an op cannot be called by itself; empty where it can."""
    return "" if op in recipes("ops") else _first(_NOT_ALONE, op)


def why_no_layer(name: str) -> str:
    """Why a layer is not audited; empty where it is."""
    return "" if name in recipes("layers") else _first(_NOT_NUMBERS, name) or _AUGMENTATION


def _first(table: dict[tuple[str, ...], str], name: str) -> str:
    return next((why for starts, why in table.items() if name.startswith(starts)), "")
