"""What names of parameters stand for in this field. One table: a pattern, and what may be given for it."""

from __future__ import annotations

import re
from typing import Any

from pullback.cli.guess.annotations import square
from pullback.cli.guess.wanted import NAME, Wanted

# Settings that are never tensors: an ordinary value first, others after it.
_SETTINGS: dict[str, tuple[Any, ...]] = {
    r"axis|axes|.*_axis": (-1, 1, 0, [0], [1]),
    r"keep_?dims|training|is_training|inference|.*_mode_on|reverse|exclusive|symmetric|signed|use_.*|with_.*|is_.*|narrow_range": (True, False),
    r"name|scope|.*_name": ("name",),
    r"d_?type|.*_dtype": ("float32",),
    r"(?:.*_)?seed|rng|key": (0,),
    r"(?:.*_|n)?bits?|num_bits|k_bits|bit_?width|precision_bits": (4, 2),
    r"kernel_size|window|window_size|pool_size|ksize": (3, 2, (3, 3)),
    r"strides?|dilations?|rate_dilation": (1, (1, 1), 2),
    r"padding|pad": ("SAME", "VALID", "same"),
    r"data_format": ("NHWC", "channels_last"),
    r"reduction": ("mean", "sum", "none"),
    r"shape|.*_shape|sizes|dims": ((3, 4), (4,), [3, 4]),
    r"num|n|k|m|num_.*|n_.*|.*_size|.*_count|count|depth|units|filters|features|hidden|steps|.*_steps|iters|.*_iters|iterations|max_iter.*|order|degree|groups|.*_groups|block.*|top_?k|levels|.*_levels|layers|length|classes|.*_classes|.*_dim|dim|output_dim|input_dim|heads|.*_heads|capacity|rank|bins": (4, 3, 2, 5, 1),
}  # fmt: skip
# Numbers that a function is set up with: one number each, with which it does something.
_STRICT, _LOOSE = True, False
_NUMBERS: dict[str, tuple[float, bool]] = {
    r"eps|epsilon|.*_eps|.*_epsilon|tiny|jitter": (1e-3, _STRICT),
    r"label_smoothing|smoothing": (0.1, _STRICT),
    r"temp|temperature|tau|.*_temperature": (0.7, _STRICT),
    r"low|lo|lower|min|minval|min_val(?:ue)?|minimum|vmin|x_?min|clip_min|lower_bound|qmin|a_min|left|start": (-0.8, _LOOSE),
    r"high|hi|upper|max|maxval|max_val(?:ue)?|maximum|vmax|x_?max|clip_max|upper_bound|qmax|a_max|right|stop": (0.9, _LOOSE),
    r"clip(?:_.*)?|.*_clip|max_norm|clip_norm|clip_value|limit|bound|cap|max_grad.*|norm_bound": (0.5, _STRICT),
    r"power|exponent|pow|p_norm|ord": (3.0, _STRICT),
    r"keep_prob|rate|drop(?:out)?(?:_rate|_prob)?|prob_keep": (0.4, _STRICT),
    r"slope|.*_slope|leak|leakiness|negative_slope": (0.2, _STRICT),
    r"threshold|thresh|.*_threshold|v_?th|v_?thr|theta|theshold|firing_.*": (0.4, _LOOSE),
    r"lam|lamb|lambda_?|lmbda|lambd|l|coef.*|coeff.*|strength|factor|multiplier|.*_factor|.*_coef|reversal_.*|hp_lambda|grad_.*|gradient_.*|damping|dampening|decay|.*_decay|momentum|margin|focus|sharpness|steepness|width|radius|hardness|amplitude|lr|learning_rate|step_size|dt|noise|commitment.*|intensity|magnitude|learning_.*": (0.7, _STRICT),
    r"gamma|alpha|beta|delta|kappa|eta|zeta|omega|scale|scales?_factor|stretch|offset|shift|zero_point|step|c": (0.6, _LOOSE),
    r"std|stddev|sigma|variance|var|scale_diag": (0.8, _LOOSE),
}  # fmt: skip
_OFTEN_TENSORS = {"features", "filters", "classes", "block", "length", "hidden", "count", "counts"}
# Numbers of a function that are often learnt: no gradient for them may be a mistake.
_LEARNT = r"alpha|beta|gamma|scales?|sigma|std|stddev|kappa|eta|zeta|omega|c|step|shift|offset|zero_point|slope|leak|theta"
_FUNCTIONS = r"fn|func|function|f|forward|forward_fn|.*_fn|.*_func|activation|act|callback|layer|block|net|module|op|primitive|transform"
_CLASSES = r"logits?|.*_logits|scores?|preds?|prediction.*|y_pred|y_hat|outputs?|log_?probs?|probs?|probabilities|p_?hat"
# Labels, masks and the like: part of the data, and their gradient is of no interest.
DATA = (
    r"labels?|.*_labels?|targets?|.*_targets?|y_true|true|truth|ground_truth|gt|one_?hot.*|onehot|classes"
    r"|(?:.*_)?masks?|(?:sample_|class_|loss_)weights?|indices|.*_indices|index|idx|ids|.*_ids|lengths?|.*_lengths?|seq_len.*"
    r"|positions?|training|assignments?|noise|u|uniform|gumbel.*|random.*"
)
_KINDS = {
    r"probs?|probabilities|.*_probs?|p_?hat": "shares",
    r"sigmas?|std(?:dev)?s?|variances?|var|sd|precision|concentration.*|rates?|df|radius|scale_diag|positive.*|distances?": "positive",
    r"u|uniform(?:_.*)?|unit.*|quantiles?": "unit",
    r"cov|covariance|.*_cov|spd|psd|precision_matrix|gram": "definite",
    r"(?:.*_)?masks?|spikes?|gates?_mask|keep": "flags",
    r"(?:sample_|class_|loss_)weights?": "positive",
}  # fmt: skip
_WHOLE = r"indices|.*_indices|index|idx|ids|.*_ids|lengths?|.*_lengths?|seq_len.*|positions?|labels_int|class_ids?|tokens?"


def is_data(name: str) -> bool:
    """Whether a name is that of labels, masks, indices: what nobody expects a gradient for."""
    return re.fullmatch(DATA, name.lower()) is not None


def is_setting(name: str) -> bool:
    """Whether a name is that of a number that a function is set up with, which may be learnt or not."""
    return _number(name.lower()) is not None


def may_be_learnt(name: str) -> bool:
    """Whether a setting is one that often has a gradient."""
    return re.fullmatch(_LEARNT, name.lower()) is not None


def from_name(name: str, kind: type | None, *, direct: bool, others: list[str]) -> list[Wanted]:
    """What may be given for a name; `direct` says that the function has the gradient itself.

    >>> from_name("axis", None, direct=True, others=["x"])[0].plain
    -1
    """
    name = name.lower().strip("_")
    if kind in (int, str) or kind is None:
        settings = _setting(name)
        fitting = [w for w in settings if kind is None or isinstance(w.plain, kind)]
        if fitting and kind is not None:
            return fitting
        if fitting:
            is_tensor = direct if len(name) == 1 else name in _OFTEN_TENSORS
            is_tensor = is_tensor or (name == "k" and {"q", "v"} <= set(others))
            return [Wanted(), *fitting] if is_tensor else [*fitting[:1], Wanted(), *fitting[1:]]
    if kind in (int, str):
        return [Wanted(NAME, 2 if kind is int else ""), Wanted(NAME, 1 if kind is int else "name")]
    found = _number(name)
    if found is not None or kind is float:
        return _numbers(*(found or (0.6, _STRICT)), direct=direct, is_float=kind is float)
    if re.fullmatch(_FUNCTIONS, name):
        return [Wanted(NAME, square, soft=True), Wanted()]
    return _tensor(name, [other.lower() for other in others])


def _setting(name: str) -> list[Wanted]:
    values = next((v for pattern, v in _SETTINGS.items() if re.fullmatch(pattern, name)), ())
    return [Wanted(NAME, value) for value in values]


def _number(name: str) -> tuple[float, bool] | None:
    return next((v for pattern, v in _NUMBERS.items() if re.fullmatch(pattern, name)), None)


def _numbers(value: float, strict: bool, *, direct: bool, is_float: bool) -> list[Wanted]:
    """A tensor of one number, the number itself, and, where the name leaves it open, a tensor of any shape."""
    scalar = Wanted(NAME, dims=(), values=f"={value}", soft=not strict)
    plain = Wanted(NAME, value)
    tensor = [] if strict else [Wanted(NAME, values="positive" if value > 0 else "")]
    return [scalar, *tensor, plain] if direct and not is_float else [plain, scalar, *tensor]


def _tensor(name: str, others: list[str]) -> list[Wanted]:
    if re.fullmatch(_WHOLE, name):
        return [Wanted(NAME, dtype="int32"), Wanted(NAME, dtype="int32", dims=(3,)), Wanted(NAME)]
    has_classes = [o for o in others if re.fullmatch(_CLASSES, o)]
    if re.fullmatch(r"labels?|.*_labels?|targets?|y_true|classes|y|one_?hot.*|onehot", name) and has_classes:
        batch = Wanted(NAME, dims=(3,), dtype="int32")
        hot, unit = Wanted(NAME, values="one-hot"), Wanted(NAME, values="unit")
        ints = Wanted(NAME, dtype="int32")
        return [hot, batch, ints, Wanted(NAME, dims=(3,), dtype="int64"), unit]
    if name == "bias" and others:
        return [Wanted(NAME, dims=(4,), soft=True), Wanted(NAME, dims=(3,), soft=True), Wanted()]
    values = next((kind for pattern, kind in _KINDS.items() if re.fullmatch(pattern, name)), "")
    if values == "flags":
        return [Wanted(NAME, values="flags"), Wanted(NAME, dtype="bool")]
    if values == "definite":
        return [Wanted(NAME, dims=("n", "n"), values=values), Wanted(NAME)]
    return [Wanted(NAME, values=values)] if values else []
