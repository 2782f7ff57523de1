"""One operation of a program, run on other operands than it is given there: only where it can do no more than raise.

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

from pullback.engines.tensorflow.programs import operations
from pullback.engines.tensorflow.tf_private import explaining, overriding
from pullback.extend import Endures, Node, Refused

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


def endures(node: Node) -> Endures:
    """Which other operands an operation may be given."""
    if node.carries or node.op in TRIED:
        return Endures.ANY
    return Endures.FINITE if node.op in _OF_FINITE_NUMBERS else Endures.SAME_FORM


def run_changed(node: Node, inputs: Sequence[Any], before: Sequence[Any], dtype: str) -> list[Any]:
    """The operation on other operands: of the same form as they were, or of any where it was tried on such."""
    if all(map(has_form_of, inputs, before)):
        if _calls_functions(node.op):
            raise Refused(f"{node.op} is run on nothing but what the program gives it")
        if node.op in _OF_FINITE_NUMBERS and not all(map(_is_finite, inputs)):
            raise Refused(f"{node.op} is run on finite numbers only")
        return operations.run(node, inputs, dtype)
    return list(inputs[: node.carries]) if node.carries else otherwise(node)(list(inputs))


def _is_finite(tensor: Any) -> bool:
    return not tensor.dtype.is_floating or bool(np.isfinite(tensor.numpy()).all())


def otherwise(
    node: Node, kind: str = "", options: Mapping[str, Any] | None = None
) -> Callable[[list[Any]], list[Any]]:
    """The operation, to be run on any tensors; as one of another type, or with other options."""
    kind, attributes = kind or node.op, {**node.raw.attributes, **(options or {})}

    def call(inputs: list[Any]) -> list[Any]:
        if kind not in TRIED:
            raise Refused(f"{kind} is run on nothing but what the program gives it")
        count = len(node.outputs)
        given = _for(kind, attributes)
        shapes = _inferred(kind, inputs, node.raw.output_types, given)
        known = all(shape.is_fully_defined() for shape in shapes)
        if not known and kind not in _SELECTING:
            raise Refused(f"{kind} has results of unknown size")
        if known and sum(shape.num_elements() for shape in shapes) > _LARGEST:
            raise Refused(f"{kind} has results of too many numbers")
        with tf.device("CPU:0"):  # whose kernels were tried
            return explaining.run_op(kind, count, inputs, tuple(chain.from_iterable(given.items())))

    return call


def _for(kind: str, attributes: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes that a type of operation has, of those of another."""
    known = operations.kinds_of(kind)
    return {name: value for name, value in attributes.items() if name in known}


def has_form_of(value: Any, other: Any) -> bool:
    """Whether two tensors differ by no more than numbers with a fraction; a list of tensors is what it was made as."""
    if value is other:
        return True
    if value.dtype != other.dtype or value.shape != other.shape:
        return False
    dtype = value.dtype
    if dtype.is_floating or dtype.is_complex or dtype in (tf.variant, tf.resource):
        return True
    return bool(np.array_equal(value.numpy(), other.numpy()))


@functools.cache
def _calls_functions(kind: str) -> bool:
    definition = overriding.op_def_registry.get(kind)
    return definition is None or any("func" in attr.type for attr in definition.attr)


def _inferred(
    kind: str, inputs: Sequence[Any], dtypes: Sequence[tf.DType], attributes: Mapping[str, Any]
) -> list[Any]:
    """The shapes of its results, inferred in a graph, where what does not fit raises."""
    with tf.Graph().as_default() as graph:
        protos = operations.as_protos(kind, attributes)
        made = graph.create_op(kind, list(map(_stand_in, inputs)), list(dtypes), attrs=protos)
    return [t.shape for t in made.outputs]


def _stand_in(value: Any) -> Any:
    """A tensor without its numbers; those that are sizes, axes or indices tell shapes."""
    if value.dtype.is_integer:
        return tf.constant(value.numpy())
    return tf.compat.v1.placeholder(value.dtype, value.shape)
