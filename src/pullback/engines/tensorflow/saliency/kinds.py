"""Every operation by kind: what is linear in what varies with the examples, and what else there is.

An operation of no kind is unknown, and methods that must account for everything refuse it by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import keras
import tensorflow as tf

# Operations whose output is linear in what can vary with the examples, or does not vary at all. A matrix product or a
# convolution is one: an operand without examples is a weight. Operations of lists and functions hand on what they got.
_LINEAR: Final = """
    AddN AvgPool AvgPool3D BatchToSpace BatchToSpaceND BroadcastTo Cast Concat ConcatV2 Conv Conv2D
    Conv2DBackpropInput Conv2DBackpropInputV2 Conv3D Conv3DBackpropInput Conv3DBackpropInputV2 Copy Cumsum
    DepthToSpace DepthwiseConv2dNative DepthwiseConv2dNativeBackpropInput Diag DynamicPartition DynamicStitch
    EnsureShape Enter Exit ExpandDims ExtractImagePatches ExtractVolumePatches FFT FFT2D Fill Gather GatherNd GatherV2
    Identity IdentityN IFFT IFFT2D Imag IRFFT IRFFT2D LoopCond MatMul MatrixBandPart MatrixDiag MatrixDiagPart
    MatrixDiagPartV2 MatrixDiagPartV3 MatrixDiagV2 MatrixDiagV3 MatrixSetDiag MatrixSetDiagV3 MatrixTranspose Mean
    Merge MirrorPad Neg NextIteration OnesLike Pack Pad PadV2 ParallelConcat ParallelDynamicStitch
    PlaceholderWithDefault PreventGradient Print PrintV2 Rank ReadVariableOp Real RealImag Reshape ResizeArea
    ResizeBicubic ResizeBilinear ResizeNearestNeighbor ResourceGather Reverse ReverseSequence ReverseV2 RFFT RFFT2D
    Roll ScaleAndTranslate ScatterNd SegmentMean SegmentSum Shape ShapeN Size Slice Snapshot SpaceToBatch
    SpaceToBatchND SpaceToDepth SparseSegmentMean SparseSegmentSum SparseTensorDenseMatMul Split SplitV Squeeze
    StopGradient StridedSlice Sum Switch TensorListConcat TensorListConcatV2 TensorListElementShape
    TensorListFromTensor TensorListGather TensorListGetItem TensorListLength TensorListPopBack TensorListPushBack
    TensorListReserve TensorListResize TensorListScatter TensorListScatterIntoExistingList TensorListScatterV2
    TensorListSetItem TensorListSplit TensorListStack TensorScatterAdd TensorScatterSub TensorScatterUpdate
    TensorStridedSliceUpdate Tile Trace Transpose Unpack UnsortedSegmentSum VarHandleOp Where ZerosLike
"""
LINEAR: Final = frozenset(_LINEAR.split())
# Activations that are one operation, whichever function, layer or string they come by.
ACTIVATIONS: Final = (
    "Relu", "Relu6", "LeakyRelu", "Elu", "Selu", "Softplus", "Softsign", "Tanh", "Sigmoid",
)  # fmt: skip
# Other functions of one number.
_FUNCTIONS: Final = """
    Abs Acos Acosh Asin Asinh Atan Atanh BesselI0e BesselI1e ClipByValue Cos Cosh Digamma Erf Erfc Erfinv Exp Expm1 Inv
    Lgamma Log Log1p Ndtri Pow Reciprocal Rsqrt Sin Sinh Sqrt Square Tan
"""
KINDS: Final[Mapping[str, str]] = {
    **dict.fromkeys(ACTIVATIONS, "activation"),
    **dict.fromkeys(_FUNCTIONS.split(), "function"),
    **dict.fromkeys(["Mul", "BatchMatMul", "BatchMatMulV2", "Einsum"], "product"),
    **dict.fromkeys(["RealDiv", "Div", "DivNoNan"], "quotient"),
    **dict.fromkeys(["Max", "MaxPool", "MaxPoolV2", "MaxPool3D"], "largest"),
    **dict.fromkeys(["Maximum", "Minimum", "SelectV2"], "choice"),
    **dict.fromkeys(["FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"], "normalisation"),
    **dict.fromkeys(["Add", "AddV2", "Sub", "BiasAdd"], "sum"),
    "SquaredDifference": "squared difference",
    "Softmax": "softmax",
    "LogSoftmax": "log softmax",
}
# Operations of which activations are made by hand, and other things as well.
MAYBE_ACTIVATIONS: Final = frozenset(
    {"Abs", "Atan", "ClipByValue", "Cos", "Cosh", "Erf", "Erfc", "Exp", "Expm1", "Log1p", "Maximum", "Minimum",
     "Select", "SelectV2", "Sign", "Sin", "Sinh", "Step"}
)  # fmt: skip
# Kinds that are linear in inference: they have a rule where what a bias took is counted.
LINEAR_KINDS: Final = frozenset({"sum", "normalisation"})
# Activations made of several operations: each call is one unit. Keras' gelu, silu and hard_tanh call TensorFlow's.
_UNITS: Final = (tf.nn.gelu, tf.nn.silu, tf.math.log_sigmoid, tf.clip_by_value, keras.layers.PReLU)
_UNITS_OF_KERAS: Final = (
    "celu", "elu", "hard_shrink", "hard_sigmoid", "hard_silu", "mish", "soft_shrink", "sparse_plus", "sparse_sigmoid",
    "squareplus", "tanh_shrink", "threshold",
)  # fmt: skip


def units() -> dict[Any, str]:
    """Functions and layers that are one activation each, as far as this Keras has them, by kind.

    A gated one is a function of two numbers: a unit for some methods, and a product for others.
    """
    known = [getattr(keras.activations, name, None) for name in _UNITS_OF_KERAS]
    found = dict.fromkeys([*_UNITS, *(each for each in known if each is not None)], "activation")
    gated = getattr(keras.activations, "glu", None)
    return found if gated is None else {**found, gated: "gated activation"}
