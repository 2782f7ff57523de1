"""Gradients that are meant to be no derivatives, with the reason; and what of pullback mends those that are wrong."""

import re

_STRAIGHT = (
    "straight through by design: the function is a staircase, its gradient that of the identity"
)
_REJECTION = "the gradient is that by implicit reparameterisation, not of the numbers that rejection lets through"
# By what the name ends in, in lower case and without underscores.
_DESIGN = {
    r"fakequant.*|quantizeanddequantize.*": _STRAIGHT,
    r"stopgradient": "to stop the gradient is what it is for",
    r"masking": "what is masked is to have no gradient",
    r"preventgradient": "to refuse a gradient is what it is for",
    r"(random|stateless)*shuffle": "the order is drawn at random, and registered as not differentiable",
    r"(stateless)?(random)?gamma(v2|v3)?|(stateless)?parameterizedtruncatednormal": _REJECTION,
}
_MENDS = {
    r"norm|euclideannorm|reduceeuclideannorm|globalnorm": "norm",
    r"hypot": "hypot",
    r"atan2|arctan2": "atan2",
    r"std|reducestd": "std",
    r"cumprod": "cumprod",
    r"logaddexp": "logaddexp",
    r"logsumexp|reducelogsumexp": "logsumexp",
    r"svd": "polar",
    r"eigh|selfadjointeigv2": "sqrtm",
    r"categoricalcrossentropy|softmaxcrossentropywithlogits": "categorical_cross_entropy",
    r"binarycrossentropy": "binary_cross_entropy",
    r"binaryfocalcrossentropy": "binary_focal_cross_entropy",
    r"kldivergence": "kl_divergence",
}


def by_design(name: str) -> str:
    """Why the gradient is meant to be no derivative; empty where it is meant to be one."""
    return _found(_DESIGN, name)


def mended_by(name: str) -> str:
    """The entry of `pb.functions` that is right where this is wrong."""
    known = _found(_MENDS, name)
    return f"pb.functions.{known}" if known else ""


def _found(table: dict[str, str], name: str) -> str:
    short = name.rpartition(".")[2].replace("_", "").lower()
    return next((text for pattern, text in table.items() if re.fullmatch(pattern, short)), "")
