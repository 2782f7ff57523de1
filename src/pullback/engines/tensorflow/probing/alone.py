"""One operation of a traced program, run by itself on other operands: only where it can do no more than raise.

A diagnosis runs programs that nobody wrote. Most kernels of TensorFlow refuse what does not fit; some end the process
(a Fourier transform of length zero, the gradient of pooling for other sizes), some loop until numbers meet a condition
that they no longer can, and any of them may ask for more memory than there is. So:

* with other numbers in tensors of the same shapes an operation runs, for that is what it meets at any other point, too;
* with anything else changed (shapes, integers, conditions, options) only those run that were tried on thousands of
  operands that do not fit (`benchmarks/check_deaths.py`), after the shapes of their results were inferred.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
import tensorflow as tf

from pullback.engines.tensorflow.tf_private import explaining
from pullback.engines.tensorflow.tf_private.auditing import all_operations

# They compute number by number, or check the sizes, axes, indices and lengths that they are given.
TRIED = frozenset(
    [
        # number by number
        *(
            "Abs",
            "Add",
            "AddN",
            "AddV2",
            "Angle",
            "Atan2",
            "BiasAdd",
            "BiasAddGrad",
            "Cast",
            "Ceil",
        ),
        *("ClipByValue", "Complex", "ComplexAbs", "Conj", "Cos", "Cosh", "Digamma", "Div"),
        *(
            "DivNoNan",
            "Elu",
            "Equal",
            "Erf",
            "Erfc",
            "Exp",
            "Expm1",
            "Floor",
            "FloorDiv",
            "FloorMod",
        ),
        *(
            "Greater",
            "GreaterEqual",
            "Identity",
            "IdentityN",
            "Imag",
            "Inv",
            "IsFinite",
            "LeakyRelu",
        ),
        *("Less", "LessEqual", "Lgamma", "Log", "Log1p", "LogicalAnd", "LogicalNot", "LogicalOr"),
        *("Maximum", "Minimum", "Mul", "MulNoNan", "Neg", "NotEqual", "OnesLike", "Pow"),
        *("Real", "RealDiv", "Reciprocal", "Relu", "Relu6", "Rint", "Round", "Rsqrt", "Select"),
        *("SelectV2", "Selu", "Sigmoid", "Sign", "Sin", "Sinh", "Softplus", "Softsign", "Sqrt"),
        *("Square", "SquaredDifference", "StopGradient", "Sub", "Tan", "Tanh", "TruncateDiv"),
        *("Xdivy", "Xlog1py", "Xlogy", "ZerosLike"),
        # their gradients
        *("EluGrad", "InvGrad", "LeakyReluGrad", "ReciprocalGrad", "Relu6Grad", "ReluGrad"),
        *("RsqrtGrad", "SeluGrad", "SigmoidGrad", "SoftplusGrad", "SoftsignGrad", "SqrtGrad"),
        "TanhGrad",
        # along axes
        *("All", "Any", "ArgMax", "ArgMin", "Cumprod", "Cumsum", "CumulativeLogsumexp"),
        *("EuclideanNorm", "L2Loss", "LogSoftmax", "Max", "Mean", "Min", "Prod", "Softmax", "Sum"),
        "TopKV2",
        # in places
        *("BroadcastArgs", "BroadcastGradientArgs", "BroadcastTo", "ConcatOffset", "ConcatV2"),
        *("ConjugateTranspose", "Diag", "DiagPart", "DynamicPartition", "DynamicStitch"),
        *("ExpandDims", "Fill", "GatherNd", "GatherV2", "InvertPermutation", "MatrixBandPart"),
        *("MatrixDiag", "MatrixDiagPart", "MatrixSetDiag", "MirrorPad", "MirrorPadGrad", "OneHot"),
        *("Pack", "Pad", "PadV2", "Range", "Reshape", "Reverse", "ReverseV2", "Roll"),
        *("ScatterNd", "SegmentMax", "SegmentMean", "SegmentMin", "SegmentProd", "SegmentSum"),
        *("Shape", "ShapeN", "Size", "Slice", "Split", "Squeeze", "StridedSlice"),
        *(
            "StridedSliceGrad",
            "TensorScatterAdd",
            "TensorScatterSub",
            "TensorScatterUpdate",
            "Tile",
        ),
        *("Transpose", "Unpack", "UnsortedSegmentMax", "UnsortedSegmentMin", "UnsortedSegmentProd"),
        *("UnsortedSegmentSum", "Where"),
        # of matrices
        *("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3", "Cholesky", "Einsum", "MatMul"),
        *(
            "MatrixInverse",
            "MatrixSolve",
            "MatrixTriangularSolve",
            "FFT",
            "FFT2D",
            "IFFT",
            "IFFT2D",
        ),
    ]
)
# They end the process, or do not end, for numbers that are not finite.
_OF_FINITE_NUMBERS = frozenset(
    [
        "CropAndResizeGradBoxes",
        "CropAndResizeGradImage",
        "RandomPoissonV2",
        "StatelessRandomPoisson",
    ]
)
# How many results they have is known once they have run; there are no more than operands.
_SELECTING = frozenset(["BroadcastGradientArgs", "Where", "DynamicPartition", "Unique", "UniqueV2"])
# Results of more numbers than this are no change of a program that is small enough to be looked into.
_LARGEST = 1_000_000

Call = Callable[[list[Any]], list[Any]]


class Unsafe(ValueError):
    """An operation is not run, because it might end the process, or not end."""


def as_traced(op: Any) -> Call:
    """The operation, to be run on tensors of the same form: shapes, integers and conditions."""
    run = _refused(op) if _is_open(op) else _runner(op, op.type, {})
    return _of_finite_numbers(op, run) if op.type in _OF_FINITE_NUMBERS else run


def _of_finite_numbers(op: Any, run: Call) -> Call:
    def call(taken: list[Any]) -> list[Any]:
        if not all(np.isfinite(t.numpy()).all() for t in taken if t.dtype.is_floating):
            raise Unsafe(f"{op.type} is run on finite numbers only")
        return run(taken)

    return call


def otherwise(op: Any, kind: str = "", options: Mapping[str, Any] | None = None) -> Call:
    """The operation, to be run on any tensors; as one of another type, or with other options."""
    kind = kind or op.type
    if kind not in TRIED:
        return _refused(op)
    run, infer = _runner(op, kind, options or {}), _inferring(op, kind, options or {})

    def call(taken: list[Any]) -> list[Any]:
        shapes = infer(taken)
        known = all(shape.is_fully_defined() for shape in shapes)
        if not known and kind not in _SELECTING:
            raise Unsafe(f"{kind} has results of unknown size")
        if known and sum(shape.num_elements() for shape in shapes) > _LARGEST:
            raise Unsafe(f"{kind} has results of too many numbers")
        with tf.device("CPU:0"):  # whose kernels were tried
            return run(taken)

    return call


def has_form_of(value: Any, other: Any) -> bool:
    """Whether two values differ by no more than numbers with a fraction; a list of tensors is what it was made as."""
    a, b = (tf.as_dtype(v.dtype).name for v in (value, other))
    if a != b or tuple(value.shape) != tuple(other.shape):
        return False
    dtype = tf.as_dtype(value.dtype)
    if dtype.is_floating or dtype.is_complex or dtype in (tf.variant, tf.resource):
        return True
    return bool(np.array_equal(np.asarray(value), np.asarray(other)))


def _is_open(op: Any) -> bool:
    """Whether other numbers may do more inside an operation than change its results."""
    inside = _inside(op) or []
    made = any(one.type == "Cast" and _is_index_of_number(one) for one in inside)
    unsure = any(one.type in _OF_FINITE_NUMBERS for one in inside)
    return runs_until(op) or unsure or (made and any(one.type not in TRIED for one in inside))


def _is_index_of_number(cast: Any) -> bool:
    return cast.inputs[0].dtype.is_floating and cast.outputs[0].dtype.is_integer


def runs_until(op: Any) -> bool:
    """Whether an operation has a loop that goes on until numbers meet a condition, or may have one."""
    inside = _inside(op)
    return inside is None or any(_is_open_loop(one) for one in (op, *inside))


def _is_open_loop(op: Any) -> bool:
    if op.type not in ("While", "StatelessWhile"):
        return False
    graph = explaining.graph_of(op, op.get_attr("cond").name)
    return any(t.dtype.is_floating for inner in graph.get_operations() for t in inner.inputs)


def _inside(op: Any) -> list[Any] | None:
    """The operations of the functions that an operation calls; nothing where these cannot be seen."""
    names = [a.name for a in op.op_def.attr if a.type == "func"]
    try:
        graphs = [explaining.graph_of(op, op.get_attr(name).name) for name in names]
    except (AttributeError, tf.errors.OpError):  # of functions of the old kind
        return None
    return [inner for graph in graphs for inner in all_operations(graph)]


def _refused(op: Any) -> Call:
    def call(_: list[Any]) -> list[Any]:
        raise Unsafe(f"{op.type} is run on nothing but what the program gives it")

    return call


def _runner(op: Any, kind: str, options: Mapping[str, Any]) -> Call:
    known = explaining.attributes_of(op)
    given = dict(zip(known[::2], known[1::2], strict=True)) | dict(options)
    attributes = tuple(chain.from_iterable(given.items()))
    return lambda taken: explaining.run_op(kind, len(op.outputs), taken, attributes)


def _inferring(op: Any, kind: str, options: Mapping[str, Any]) -> Callable[[list[Any]], list[Any]]:
    """The shapes of its results, inferred in a graph, where what does not fit raises."""
    attributes = {k: v for k, v in op.node_def.attr.items() if not k.startswith("_")}
    attributes |= {name: _attribute(value) for name, value in options.items()}
    dtypes = [t.dtype for t in op.outputs]

    def infer(taken: Sequence[Any]) -> list[Any]:
        with tf.Graph().as_default() as graph:
            made = graph.create_op(kind, list(map(_stand_in, taken)), dtypes, attrs=attributes)
        return [t.shape for t in made.outputs]

    return infer


def _stand_in(value: Any) -> Any:
    """A tensor without its numbers; those that are sizes, axes or indices tell shapes."""
    if value.dtype.is_integer:
        return tf.constant(value.numpy())
    return tf.compat.v1.placeholder(value.dtype, value.shape)


@functools.singledispatch
def _attribute(value: Any) -> Any:
    raise TypeError(f"no option of an operation: {value!r}")


@_attribute.register
def _(value: bool) -> Any:
    return tf.compat.v1.AttrValue(b=value)


@_attribute.register(bytes)
@_attribute.register(str)
def _(value: Any) -> Any:
    return tf.compat.v1.AttrValue(s=tf.compat.as_bytes(value))
