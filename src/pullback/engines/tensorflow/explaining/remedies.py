"""TensorFlow's operations in the words of `explain`: how they are called, what they do to a gradient, what to write."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pullback.extend import flow

Op = flow.Op

_STRAIGHT = "`pb.with_gradient({0}, lambda dy: dy)` passes the gradient straight through"
_STEP = f"Write a gradient for it: {_STRAIGHT}"
_SOFT = "Use numbers instead of flags, such as `tf.sigmoid({0})` or `tf.where` with both branches computed from it"
_SAFE = "Keep the bad numbers out before: `ok = ...; tf.where(ok, f(tf.where(ok, x, 1.0)), 0.0)`"

# role: {op type: what users write}
_CALLS: Mapping[str, Mapping[str, str]] = {
    "step": {
        "Round": "tf.round",
        "Rint": "tf.math.rint",
        "Floor": "tf.floor",
        "Ceil": "tf.math.ceil",
        "Sign": "tf.sign",
        "FloorDiv": "`//`",
        "TruncateDiv": "tf.truncatediv",
        "FakeQuantWithMinMaxArgs": "tf.quantization.fake_quant_with_min_max_args",
    },
    "index": {
        "ArgMax": "tf.argmax",
        "ArgMin": "tf.argmin",
        "TopKV2": "tf.math.top_k",
        "TopK": "tf.math.top_k",
        "UniqueV2": "tf.unique",
        "Unique": "tf.unique",
        "Where": "tf.where",
        "Bucketize": "tf.raw_ops.Bucketize",
        "SearchSorted": "tf.searchsorted",
        "LowerBound": "tf.searchsorted",
        "UpperBound": "tf.searchsorted",
        "InTopKV2": "tf.math.in_top_k",
        "NonMaxSuppressionV3": "tf.image.non_max_suppression",
        "Multinomial": "tf.random.categorical",
        "StatelessMultinomial": "tf.random.stateless_categorical",
    },
    "compare": {
        "Greater": "`>`",
        "GreaterEqual": "`>=`",
        "Less": "`<`",
        "LessEqual": "`<=`",
        "Equal": "`==`",
        "NotEqual": "`!=`",
        "ApproximateEqual": "tf.math.approximate_equal",
        "IsFinite": "tf.math.is_finite",
        "IsNan": "tf.math.is_nan",
        "IsInf": "tf.math.is_inf",
    },
    "cast": {
        "Cast": "tf.cast",
        "Quantize": "tf.quantization.quantize",
        "QuantizeV2": "tf.quantization.quantize",
    },
    "bits": {"Bitcast": "tf.bitcast", "DecodeRaw": "tf.io.decode_raw"},
    "text": {
        "AsString": "tf.strings.as_string",
        "StringFormat": "tf.strings.format",
        "SerializeTensor": "tf.io.serialize_tensor",
    },
    "shape": {
        "Shape": "tf.shape",
        "ShapeN": "tf.shape_n",
        "Size": "tf.size",
        "Rank": "tf.rank",
        "ZerosLike": "tf.zeros_like",
        "OnesLike": "tf.ones_like",
    },
    "stop": {"StopGradient": "tf.stop_gradient", "PreventGradient": "tf.raw_ops.PreventGradient"},
    "assign": {
        "AssignVariableOp": "assign",
        "AssignAddVariableOp": "assign_add",
        "AssignSubVariableOp": "assign_sub",
        "ResourceScatterUpdate": "scatter_update",
        "ResourceScatterAdd": "scatter_add",
        "ResourceScatterNdUpdate": "scatter_nd_update",
        "ResourceScatterNdAdd": "scatter_nd_add",
        "ResourceStridedSliceAssign": "assign to a slice",
    },
    "python": {
        "PyFunc": "tf.numpy_function",
        "PyFuncStateless": "tf.numpy_function",
        "EagerPyFunc": "tf.py_function",
    },
    "gate": {"Relu": "tf.nn.relu", "LeakyRelu": "tf.nn.leaky_relu"},
    "saturating": {
        "Sigmoid": "tf.sigmoid",
        "Tanh": "tf.tanh",
        "Erf": "tf.math.erf",
        "Erfc": "tf.math.erfc",
        "Softsign": "tf.nn.softsign",
        "Atan": "tf.atan",
        "Elu": "tf.nn.elu",
        "Selu": "tf.nn.selu",
        "Softplus": "tf.nn.softplus",
        "SoftmaxCrossEntropyWithLogits": "tf.nn.softmax_cross_entropy_with_logits",
        "SparseSoftmaxCrossEntropyWithLogits": "tf.nn.sparse_softmax_cross_entropy_with_logits",
    },
    "softmax": {"Softmax": "tf.nn.softmax", "LogSoftmax": "tf.nn.log_softmax"},
    "clip": {
        "ClipByValue": "tf.clip_by_value",
        "Minimum": "tf.minimum",
        "Maximum": "tf.maximum",
        "Relu6": "tf.nn.relu6",
    },
    "select": {"SelectV2": "tf.where", "Select": "tf.where"},
    "read": {"ReadVariableOp": "reading a variable"},
    "gather": {
        "GatherV2": "tf.gather",
        "GatherNd": "tf.gather_nd",
        "StridedSlice": "indexing",
        "Slice": "tf.slice",
        "ResourceGather": "tf.gather",
        "DynamicPartition": "tf.dynamic_partition",
    },
    "multiply": {
        "Mul": "`*`",
        "MatMul": "tf.matmul",
        "BatchMatMul": "tf.matmul",
        "BatchMatMulV2": "tf.matmul",
        "BatchMatMulV3": "tf.matmul",
        "Einsum": "tf.einsum",
        "MulNoNan": "tf.math.multiply_no_nan",
        "Conv2D": "tf.nn.conv2d",
    },
    "divide": {
        "RealDiv": "`/`",
        "Div": "tf.divide",
        "Reciprocal": "tf.math.reciprocal",
        "Inv": "tf.math.reciprocal",
        "DivNoNan": "tf.math.divide_no_nan",
        "Xdivy": "tf.math.xdivy",
        "FloorMod": "`%`",
        "Mod": "tf.math.mod",
    },
    "sqrt": {"Sqrt": "tf.sqrt"},
    "rsqrt": {"Rsqrt": "tf.math.rsqrt"},
    "norm": {"EuclideanNorm": "tf.math.reduce_euclidean_norm"},
    "log": {
        "Log": "tf.math.log",
        "Log1p": "tf.math.log1p",
        "Xlogy": "tf.math.xlogy",
    },
    "pole": {"Lgamma": "tf.math.lgamma", "Digamma": "tf.math.digamma"},
    "exp": {"Exp": "tf.exp", "Expm1": "tf.math.expm1", "Sinh": "tf.sinh", "Cosh": "tf.cosh"},
    "pow": {"Pow": "`**`"},
    "arc": {
        "Acos": "tf.acos",
        "Asin": "tf.asin",
        "Atanh": "tf.atanh",
        "Acosh": "tf.acosh",
        "Erfinv": "tf.math.erfinv",
        "Ndtri": "tf.math.ndtri",
    },
    "angle": {"Atan2": "tf.atan2"},
    "square": {"Square": "tf.square", "SquaredDifference": "tf.math.squared_difference"},
    "abs": {"Abs": "tf.abs"},
    "subtract": {"Sub": "`-`"},
    "add": {"AddV2": "`+`", "Add": "`+`", "AddN": "tf.add_n", "BiasAdd": "tf.nn.bias_add"},
    "sum": {"Sum": "tf.reduce_sum"},
    "mean": {"Mean": "tf.reduce_mean"},
    "peak": {
        "Max": "tf.reduce_max",
        "Min": "tf.reduce_min",
        "MaxPool": "tf.nn.max_pool",
        "MaxPoolV2": "tf.nn.max_pool",
        "MaxPool3D": "tf.nn.max_pool3d",
    },
    "join": {
        "Pack": "tf.stack",
        "ConcatV2": "tf.concat",
        "Unpack": "tf.unstack",
        "Split": "tf.split",
        "SplitV": "tf.split",
        "Transpose": "tf.transpose",
        "Pad": "tf.pad",
        "PadV2": "tf.pad",
        "Tile": "tf.tile",
        "BroadcastTo": "tf.broadcast_to",
    },
    "copy": {
        "Identity": "tf.identity",
        "IdentityN": "tf.identity_n",
        "Reshape": "tf.reshape",
        "Squeeze": "tf.squeeze",
        "ExpandDims": "tf.expand_dims",
        "Snapshot": "tf.identity",
        "EnsureShape": "tf.ensure_shape",
        "Conj": "tf.math.conj",
        "Real": "tf.math.real",
    },
}

_REMEDIES: Mapping[str, str] = {  # of a role, where nothing passes; {0} is what users write
    "step": _STEP,
    "index": "Take a soft choice, such as `tf.nn.softmax(x)` as weights, or gather with the indices from `x` itself",
    "compare": "Use numbers instead of flags, such as `tf.sigmoid(x - y)`, or `tf.where` with values computed from it",
    "cast": f"Keep floating-point numbers, or write a gradient for the rounding: {_STRAIGHT.format('tf.round')}",
    "bits": "Use `tf.cast`, which has a gradient between floating-point dtypes",
    "text": "Keep numbers",
    "stop": "Leave it out where a gradient is wanted",
    "assign": "Compute with the tensor itself instead of the variable",
    "python": "Use `tf.py_function` with TensorFlow operations, or give it one with `pb.custom_gradient`",
    "gate": "Use `tf.nn.leaky_relu`, a smaller learning rate, or another start",
    "saturating": "Scale its input down (normalise), or take a loss from logits",
    "softmax": "Scale its input down, or use a loss from logits (`from_logits=True`)",
    "clip": "Widen the limits, or pass the gradient on beyond them: `pb.with_gradient(tf.clip_by_value, ...)`",
    "select": "Look at the condition, or compute the other branch from it too",
    "multiply": "Look at what makes it zero",
    "exp": "Scale its input, or work with logarithms",
}
_REWRITES: Mapping[str, str] = {  # of a role, where NaN or Inf comes
    "sqrt": "Write `tf.sqrt(tf.maximum(x, 1e-12))`",
    "rsqrt": "Write `tf.math.rsqrt(tf.maximum(x, 1e-12))`",
    "norm": "Write `tf.sqrt(tf.maximum(tf.reduce_sum(x * x, axis), 1e-12))`",
    "log": "Write `tf.math.log(tf.maximum(x, 1e-12))`, or use a function that is made for it (`tf.math.log1p`, "
    "`tf.nn.log_softmax`, a loss with `from_logits=True`)",
    "pole": "Keep its input positive: `tf.maximum(x, 1e-6)`",
    "exp": "Take the largest away before (`tf.exp(x - tf.reduce_max(x))`), or write `tf.exp(tf.minimum(x, 80.0))`, "
    "`tf.reduce_logsumexp`, `tf.nn.softplus`",
    "divide": "Write `tf.math.divide_no_nan(x, y)`, or add a small number to the divisor",
    "mean": "Keep at least one number, or write `tf.math.divide_no_nan(tf.reduce_sum(x), n)`",
    "pow": "Keep its base positive: `tf.maximum(x, 1e-12) ** p`; a whole power of any base is `x * x`",
    "softmax": "Keep one entry of each row, or mask with a large finite number: `tf.where(mask, x, -1e9)`",
    "arc": "Keep its input inside: `tf.clip_by_value(x, -1 + 1e-6, 1 - 1e-6)`",
    "angle": "Write `tf.atan2(y, tf.where((x == 0) & (y == 0), 1.0, x))`",
    "select": _SAFE,
    "multiply": "Take the infinite entries out before: `tf.where(tf.math.is_finite(x), x, 0.0)`, or "
    "`tf.math.multiply_no_nan`",
    "subtract": "Take the infinite entries out before",
    "cast": "Scale the numbers down before, or keep float32",
}

_SITUATIONS = (
    Op("not a tensor", "", "situation", "Pass `tf.constant(...)`"),
    Op("integer source", "", "situation", "Pass it as floating point: `tf.cast(x, tf.float32)`"),
    Op("integer target", "", "situation", "Return a floating-point number"),
    Op("frozen", "", "situation", "Set `trainable = True` on the layer, or make the variable with `trainable=True`"),
    Op("unrecorded", "", "situation", "Move it out of `stop_recording`"),
    Op("not watched", "", "situation", "Write `tape.watch(x)` in its block: of itself it watches what is trained"),
    Op("outside", "", "situation", "Move it into the block `with tf.GradientTape() as tape:`"),
    Op("no gradient", "", "situation", "Give it one with `pb.with_gradient`, or leave it out of the way"),
    Op("read before", "", "situation", "Read the variable inside the function"),
    Op("detour", "", "situation", "Use TensorFlow's functions (`tf.sin` for `np.sin`, the tensor for `x.numpy()`)"),
    Op("not used", "", "situation", "Compute the result from it, or leave it out of the sources"),
    Op("bad input", "", "situation", rewrite="Clean it: `tf.where(tf.math.is_finite(x), x, 0.0)`"),
    Op("norm", "tf.norm", "situation", rewrite="Write `tf.sqrt(tf.maximum(tf.reduce_sum(x * x, axis), 1e-12))`"),
    Op("std", "tf.math.reduce_std", "situation", rewrite="Write `tf.sqrt(tf.math.reduce_variance(x, axis) + 1e-12)`"),
    Op("root mean square", "tf.sqrt", "situation", rewrite="Write `tf.sqrt(tf.reduce_mean(x * x) + 1e-12)`"),
    Op(
        "masked softmax",
        "tf.nn.softmax",
        "situation",
        rewrite="Mask with a large finite number, `tf.where(mask, x, -1e9)`, or keep one entry of each row",
    ),
    Op(
        "float16",
        "",
        "situation",
        rewrite="Compute this in float32 (`tf.cast(x, tf.float32)`, `dtype='float32'` on a layer), or scale it down",
    ),
    Op("bad rule", "", "situation", rewrite="Guard the rule, as with `tf.math.divide_no_nan`"),
    Op("overflow", "", "situation", rewrite="Scale its input down or clip it; in training, lower the learning rate"),
)  # fmt: skip


def _function_of(call: str) -> str:
    """What an operation is called by, to be passed on: an operator has a function."""
    name = call.strip("`")
    named = {"//": "tf.math.floordiv", "%": "tf.math.floormod"}.get(name, "your_function")
    return name if name.replace(".", "").replace("_", "").isalnum() else named


_OPS = {
    kind: Op(
        kind,
        call,
        role,
        _REMEDIES.get(role, "").format(_function_of(call)),
        _REWRITES.get(role, ""),
    )
    for role, calls in _CALLS.items()
    for kind, call in calls.items()
}


def ops_of(types: Iterable[str]) -> tuple[Op, ...]:
    """What is known of these types of operations, and of all situations."""
    return tuple(_OPS[kind] for kind in sorted(set(types)) if kind in _OPS) + _SITUATIONS
