"""Names of parameters in this field, and what is meant by them: tables of words, with `*` for anything."""

from __future__ import annotations

import fnmatch
from typing import Any

# Settings that are hardly ever tensors: an ordinary value first, others after it.
SETTINGS: dict[str, tuple[Any, ...]] = {
    "axis axes *_axis": (-1, 1, 0, [0], [1]),
    """keepdims keep_dims training is_training inference reverse exclusive symmetric signed narrow_range
    use_* with_* is_*""": (True, False),
    "name scope *_name": ("name",),
    "dtype d_type *_dtype": ("float32",),
    "seed *_seed rng key": (0,),
    "bits bit nbits *_bits *_bit bit_width bitwidth": (4, 2),
    "kernel_size window window_size pool_size ksize": (3, 2, (3, 3)),
    "stride strides dilation dilations": (1, (1, 1), 2),
    "padding pad": ("SAME", "VALID", "same"),
    "data_format": ("NHWC", "channels_last"),
    "reduction": ("mean", "sum", "none"),
    "shape *_shape sizes dims": ((3, 4), (4,), [3, 4]),
    """num n k m num_* n_* *_size *_count count depth units filters features hidden steps *_steps iters *_iters
    iterations max_iter* order degree groups *_groups block* top_k topk levels *_levels layers length classes
    *_classes *_dim dim heads *_heads capacity rank bins""": (4, 3, 2, 5, 1),
}
# Settings whose names are those of tensors as well.
OFTEN_TENSORS = "features filters classes block length hidden count counts"

# Single numbers that a function is set up with. Of the first, no name is that of an array.
STRICT: dict[str, float] = {
    "eps epsilon *_eps *_epsilon tiny jitter": 1e-3,
    "label_smoothing smoothing": 0.1,
    "temp temperature tau *_temperature": 0.7,
    "clip clip_* *_clip max_norm limit bound cap max_grad* norm_bound": 0.5,
    "power exponent pow p_norm ord": 3.0,
    "keep_prob rate dropout dropout_* drop_* drop prob_keep": 0.4,
    "slope *_slope leak leakiness": 0.2,
    """lam lamb lambda lmbda lambd l coef* strength factor multiplier *_factor *_coef reversal_* hp_lambda grad_*
    gradient_* damping dampening decay *_decay momentum margin focus sharpness steepness width radius hardness
    amplitude lr learning_* step_size dt noise commitment* intensity magnitude""": 0.7,
}
LOOSE: dict[str, float] = {
    """low lo lower min minval min_val min_value minimum vmin xmin x_min clip_min lower_bound qmin a_min left
    start""": -0.8,
    """high hi upper max maxval max_val max_value maximum vmax xmax x_max clip_max upper_bound qmax a_max right
    stop""": 0.9,
    "threshold thresh *_threshold vth v_th vthr v_thr theta firing_*": 0.4,
    """gamma alpha beta delta kappa eta zeta omega scale stretch offset shift zero_point step c""": 0.6,
    "std stddev sigma variance var": 0.8,
}
# Of these, no gradient may be a mistake: they are often learnt.
LEARNT = """alpha beta gamma scale scales sigma std stddev kappa eta zeta omega c step shift offset zero_point slope
leak theta"""

FUNCTIONS = """fn func function f forward *_fn *_func activation act callback layer net module op primitive transform"""
SCORES = """logit logits *_logits score scores pred preds prediction* y_pred y_hat output outputs logprob* log_prob*
prob probs probabilities p_hat"""
LABELS = "label labels *_label *_labels target targets y_true classes y one_hot* onehot*"
LENGTHS = "length lengths *_lengths *_length seq_len* *_lens lens"
WHOLE = f"indices *_indices index idx ids *_ids {LENGTHS} position positions token tokens"
# Part of the data: nobody expects a gradient for labels, masks or indices.
DATA = f"""{WHOLE} label labels *_label *_labels target targets *_targets y_true true truth ground_truth gt one_hot*
onehot* classes mask masks *_mask *_masks sample_weight* class_weight* loss_weight* training assignment* noise u uniform
gumbel* random*"""
# Pictures [batch, height, width, channels], what says for each of their places where to look, and lists of places.
IMAGES = "image images img imgs *_image *_img frame frames picture feature_map*"
PLACES = "flow flows *_flow grid *_grid coords coordinates *_coords warp warps displacement*"
POINTS = "points query_* queries *_points locations"
BESIDE: list[tuple[str, str, tuple[int, ...]]] = [
    (IMAGES, f"{PLACES} {POINTS}", (3, 6, 5, 2)),
    (PLACES, IMAGES, (3, 6, 5, 2)),
    ("grid", POINTS, (3, 6, 5, 2)),
    (POINTS, f"{IMAGES} grid", (3, 7, 2)),
]
VALUES: dict[str, str] = {
    "prob probs probabilities *_probs p_hat": "shares",
    """sigma sigmas std stds stddev variance variances var sd precision concentration* rates df radius positive*
    distance distances sample_weight* class_weight* loss_weight*""": "positive",
    "u uniform uniform_* unit* quantile quantiles": "unit",
    "cov covariance *_cov spd psd precision_matrix gram": "definite",
    "mask masks *_mask *_masks spike spikes keep": "flags",
}


def means(words: str, name: str) -> bool:
    """Whether a name is one of these words.

    >>> means("axis *_axis", "time_axis")
    True
    """
    return any(fnmatch.fnmatchcase(name, word) for word in words.split())


def looked_up(table: dict[str, Any], name: str) -> Any:
    """What the first line says that has the name; `None` where none has."""
    return next((value for words, value in table.items() if means(words, name)), None)
