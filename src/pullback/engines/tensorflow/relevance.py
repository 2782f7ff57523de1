"""What each operation contributes to a difference of outputs, in any program: DeepLIFT.

Every operation through which gradients flow is either linear, and keeps its gradient, or has a rule, or is refused by
name. Activations made of several operations count as one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import keras
import tensorflow as tf

from pullback.engines.tensorflow.array_functions import sum_of_each
from pullback.engines.tensorflow.override.listing.flow import is_op_type
from pullback.errors import UnsupportedError
from pullback.extend import (
    HARMLESS,
    Activation,
    Audit,
    Line,
    Override,
    Resolved,
    Where,
    deeplift_rules,
    enter,
    flatten,
    guarded,
    leave,
    map_leaves,
    unflatten,
)

# Operations whose output is linear in what can vary with the examples, or does not vary at all. A matrix product or a
# convolution is one: an operand without examples is a weight. Operations of lists and functions hand on what they got.
_LINEAR: Final = """
    Add AddN AddV2 AvgPool AvgPool3D BatchToSpace BatchToSpaceND BiasAdd BroadcastTo Cast Concat ConcatV2 Conv Conv2D
    Conv2DBackpropInput Conv2DBackpropInputV2 Conv3D Conv3DBackpropInput Conv3DBackpropInputV2 Copy Cumsum
    DepthToSpace DepthwiseConv2dNative DepthwiseConv2dNativeBackpropInput Diag DynamicPartition DynamicStitch
    EnsureShape Enter Exit ExpandDims ExtractImagePatches ExtractVolumePatches FFT FFT2D Fill Gather GatherNd GatherV2
    Identity IdentityN IFFT IFFT2D Imag IRFFT IRFFT2D LoopCond MatMul MatrixBandPart MatrixDiag MatrixDiagPart
    MatrixDiagPartV2 MatrixDiagPartV3 MatrixDiagV2 MatrixDiagV3 MatrixSetDiag MatrixSetDiagV3 MatrixTranspose Mean Merge
    MirrorPad Neg NextIteration OnesLike Pack Pad PadV2 ParallelConcat ParallelDynamicStitch PlaceholderWithDefault
    PreventGradient Print PrintV2 Rank ReadVariableOp Real RealImag Reshape ResizeArea ResizeBicubic ResizeBilinear
    ResizeNearestNeighbor ResourceGather Reverse ReverseSequence ReverseV2 RFFT RFFT2D Roll ScaleAndTranslate ScatterNd
    SegmentMean SegmentSum Shape ShapeN Size Slice Snapshot SpaceToBatch SpaceToBatchND SpaceToDepth SparseSegmentMean
    SparseSegmentSum SparseTensorDenseMatMul Split SplitV Squeeze StopGradient StridedSlice Sub Sum Switch
    TensorListConcat TensorListConcatV2 TensorListElementShape TensorListFromTensor TensorListGather
    TensorListGetItem TensorListLength TensorListPopBack TensorListPushBack TensorListReserve TensorListResize
    TensorListScatter TensorListScatterIntoExistingList TensorListScatterV2 TensorListSetItem TensorListSplit
    TensorListStack TensorScatterAdd TensorScatterSub TensorScatterUpdate TensorStridedSliceUpdate Tile Trace
    Transpose Unpack UnsortedSegmentSum VarHandleOp Where ZerosLike
"""
LINEAR: Final = frozenset(_LINEAR.split())
_ACTIVATIONS: Final = """
    Abs Acos Acosh Asin Asinh Atan Atanh BesselI0e BesselI1e ClipByValue Cos Cosh Digamma Elu Erf Erfc Erfinv Exp
    Expm1 Inv LeakyRelu Lgamma Log Log1p Ndtri Pow Reciprocal Relu Relu6 Rsqrt Selu Sigmoid Sin Sinh Softplus
    Softsign Sqrt Square Tan Tanh
"""
KINDS: Final[Mapping[str, str]] = {
    **dict.fromkeys(_ACTIVATIONS.split(), "activation"),
    **dict.fromkeys(["Mul", "BatchMatMul", "BatchMatMulV2", "Einsum"], "product"),
    **dict.fromkeys(["RealDiv", "Div", "DivNoNan"], "quotient"),
    **dict.fromkeys(["Max", "MaxPool", "MaxPoolV2", "MaxPool3D"], "largest"),
    **dict.fromkeys(["Maximum", "Minimum", "SelectV2"], "choice"),
    **dict.fromkeys(["FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"], "normalisation"),
    "SquaredDifference": "squared difference",
    "Softmax": "softmax",
    "LogSoftmax": "log softmax",
}
# Activations made of several operations; Keras' gelu, silu and others call TensorFlow's.
_UNITS: Final = (tf.nn.gelu, tf.nn.silu, tf.math.log_sigmoid, tf.clip_by_value, keras.layers.PReLU)
_UNITS_OF_KERAS: Final = (
    "celu", "elu", "hard_shrink", "hard_sigmoid", "hard_silu", "mish", "soft_shrink", "sparse_plus", "sparse_sigmoid",
    "squareplus", "tanh_shrink", "threshold",
)  # fmt: skip

_AMBIGUOUS: Final = 1e-3  # far above rounding, and far below what a wrong axis leaves


def units() -> list[Any]:
    """Functions and layers that are one activation each, as far as this Keras has them."""
    known = [getattr(keras.activations, name, None) for name in _UNITS_OF_KERAS]
    return [*_UNITS, *(function for function in known if function is not None)]


class Sharing:
    """A block in which what is not linear has the rule of its kind: see `deeplift_rules` and `lrp_rules`.

    `rules` are further ones, by target, which come before; a rule that is nothing leaves the gradient as it is.
    `layers` are those of layers that are one unit each, as activations are that are made of several operations: what
    runs inside of a unit belongs to it.
    """

    def __init__(
        self,
        by_kind: Mapping[str, Any],
        rules: Mapping[Any, Any] | None = None,
        layers: Mapping[Any, Any] | None = None,
    ) -> None:
        more = dict(rules or {})
        lines = {**dict.fromkeys(units(), by_kind["activation"]), **(layers or {})}
        self._whole = frozenset(range(len(lines)))
        usual = {op: by_kind[kind] for op, kind in KINDS.items() if _exists(op)}
        found = {**usual, **more, Where(self._is_unknown): by_kind["unknown"]}
        lines |= {target: rule for target, rule in found.items() if rule is not None}
        self._known = LINEAR.union(KINDS, (each for each in more if isinstance(each, str)))
        self.override = Override(lines, strict=False)
        self.override.resolved = self._outside_units(self.override.resolved)

    def _outside_units(self, resolved: Resolved) -> Resolved:
        for handle, lines in resolved.by_handle.items():
            resolved.by_handle[handle] = [(e, _with(line, self._is_outside)) for e, line in lines]
        # By type, and not by place, which takes time to find out.
        resolved.anywhere = [
            (entry, Line((self._is_unknown, self._is_outside))) for entry, _ in resolved.anywhere
        ]
        return resolved

    def _is_outside(self, where: Any) -> bool:
        del where
        return not any(index in self._whole for _, index in guarded.get())

    def _is_unknown(self, where: Any) -> bool:
        return where.type not in self._known and is_op_type(where.type)

    @property
    def audit(self) -> Audit:
        """Of each target that was met, where."""
        return Audit(tuple(row for row in self.override.audit.rows if row.matches))

    def __enter__(self) -> Sharing:
        enter(Activation(self.override))
        return self

    def __exit__(self, kind: Any, *error: Any) -> None:
        leave(self.override)  # which operations a program has is not known before
        if kind is None:
            self._require_reach()

    def _require_reach(self) -> None:
        """Refuse what has a gradient of its own, which hides what is in it."""
        for row in self.override.audit.rows:
            for match in row.matches:
                if match.hidden_by and match.hidden_by not in HARMLESS:
                    where = match.place.layer or match.place.source
                    raise UnsupportedError(
                        f"the difference of {match.place.name} ({match.place.type}) in {where} cannot be shared out: "
                        f"{match.hidden_by}"
                    )


class Contributions(NamedTuple):
    """What each entry of the inputs contributes to the score of its example, less that of its baseline."""

    values: Any  # in the structure of x; nothing for inputs that are not floating
    gap: Any  # of each example: what the sum of contributions is off, in units of the larger score
    audit: Audit
    scores: Any
    baseline_scores: Any


def contributions(
    function: Callable[[Any], Any],
    x: Any,
    baseline: Any,
    select: Callable[[Any], Any],
    rules: Mapping[str, Any] | None = None,
) -> Contributions:
    """DeepLIFT: share out the difference that x makes against its baseline.

    `function` is called with examples and baselines in one batch. `select` gets what it returns, and gives one number
    for each of both. Some programs have another axis first, of steps; if it is as long as the batch, it is taken for
    it, and then contributions do not add up. So, where they do not, a longer batch is tried, unless this is traced.
    """
    found = _shared(function, x, baseline, select, rules, 0)
    if not tf.executing_eagerly() or not tf.reduce_max(tf.abs(found.gap)) > _AMBIGUOUS:
        return found
    again = _shared(function, x, baseline, select, rules, 1)
    return min(found, again, key=lambda each: float(tf.reduce_max(tf.abs(each.gap))))


def _shared(
    function: Callable[[Any], Any],
    x: Any,
    baseline: Any,
    select: Callable[[Any], Any],
    rules: Mapping[str, Any] | None,
    more: int,
) -> Contributions:
    """Contributions, with some of the examples twice in the batch."""
    leaves, structure = flatten(x)
    leaves = [tf.convert_to_tensor(leaf) for leaf in leaves]
    others = _like(flatten(baseline)[0], leaves)
    both = [tf.concat([a, a[:more], b, b[:more]], 0) for a, b in zip(leaves, others, strict=True)]
    moving = [i for i, leaf in enumerate(leaves) if leaf.dtype.is_floating]
    sharing = Sharing(deeplift_rules(both[0].shape[0]), rules)
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch([both[i] for i in moving])
        with sharing:
            outputs = function(unflatten(structure, both))
            scores = select(map_leaves(lambda y: _without(y, more), outputs))
        first, second = tf.split(scores, 2)
        explained = tf.reduce_sum(first)
    multipliers: Any = tape.gradient(
        explained, [both[i] for i in moving], unconnected_gradients=tf.UnconnectedGradients.ZERO
    )
    values: list[Any] = [None] * len(leaves)
    for i, multiplier in zip(moving, multipliers, strict=True):
        of_examples = _without(tf.convert_to_tensor(multiplier), more)
        values[i] = (leaves[i] - others[i]) * tf.split(of_examples, 2)[0]
    gap = _gap([values[i] for i in moving], first, second)
    return Contributions(unflatten(structure, values), gap, sharing.audit, first, second)


def _without(both: Any, more: int) -> Any:
    """Examples and baselines without those that are there twice."""
    if not more:
        return both
    first, second = tf.split(both, 2)
    return tf.concat([first[:-more], second[:-more]], 0)


def _like(baseline: Sequence[Any], leaves: Sequence[Any]) -> list[Any]:
    return [
        tf.broadcast_to(tf.cast(b, leaf.dtype), tf.shape(leaf))
        for b, leaf in zip(baseline, leaves, strict=True)
    ]


def _gap(values: Sequence[Any], scores: Any, baseline_scores: Any) -> Any:
    total = tf.add_n([sum_of_each(v) for v in values])
    scores, baseline_scores = (tf.cast(s, tf.float64) for s in (scores, baseline_scores))
    size = tf.maximum(tf.abs(scores), tf.abs(baseline_scores))
    return tf.math.divide_no_nan(total - (scores - baseline_scores), size)


def _with(line: Line, condition: Any) -> Line:
    return dataclasses.replace(line, conditions=(*line.conditions, condition))


def _exists(op_type: str) -> bool:
    return hasattr(tf.raw_ops, op_type)
