"""Functions whose gradients are better than what differentiation of their formulas gives."""

from pullback._names import names_without_folders as _names_without_folders
from pullback.functions.implicit.odeint import odeint as odeint
from pullback.functions.implicit.solutions import argmin as argmin
from pullback.functions.implicit.solutions import fixed_point as fixed_point
from pullback.functions.implicit.solutions import root as root
from pullback.functions.implicit.solve_options import Solve as Solve
from pullback.functions.implicit.solve_options import SolveLog as SolveLog
from pullback.functions.outside.external import external as external
from pullback.functions.saving.attention import attention as attention
from pullback.functions.saving.checkpoint import checkpoint as checkpoint
from pullback.functions.saving.fused import gelu as gelu
from pullback.functions.saving.fused import layer_norm as layer_norm
from pullback.functions.saving.fused import rms_norm as rms_norm
from pullback.functions.saving.fused import softmax_cross_entropy as softmax_cross_entropy
from pullback.functions.saving.fused import swiglu as swiglu
from pullback.functions.saving.linear_cross_entropy import (
    linear_cross_entropy as linear_cross_entropy,
)
from pullback.functions.saving.reversible import reversible as reversible
from pullback.functions.stable.cross_entropy import binary_cross_entropy as binary_cross_entropy
from pullback.functions.stable.cross_entropy import (
    categorical_cross_entropy as categorical_cross_entropy,
)
from pullback.functions.stable.cross_entropy import (
    sparse_categorical_cross_entropy as sparse_categorical_cross_entropy,
)
from pullback.functions.stable.elements import cumprod as cumprod
from pullback.functions.stable.elements import safe_where as safe_where
from pullback.functions.stable.exponentials import log1mexp as log1mexp
from pullback.functions.stable.exponentials import log_sub_exp as log_sub_exp
from pullback.functions.stable.exponentials import logaddexp as logaddexp
from pullback.functions.stable.exponentials import logsumexp as logsumexp
from pullback.functions.stable.lengths import atan2 as atan2
from pullback.functions.stable.lengths import hypot as hypot
from pullback.functions.stable.lengths import norm as norm
from pullback.functions.stable.lengths import normalize as normalize
from pullback.functions.stable.lengths import sqrt as sqrt
from pullback.functions.stable.lengths import std as std
from pullback.functions.stable.matrices import eigh as eigh
from pullback.functions.stable.matrices import funm as funm
from pullback.functions.stable.matrices import logdet as logdet
from pullback.functions.stable.matrices import polar as polar
from pullback.functions.stable.matrices import sqrtm as sqrtm
from pullback.functions.stable.more_losses import (
    binary_focal_cross_entropy as binary_focal_cross_entropy,
)
from pullback.functions.stable.more_losses import gaussian_nll as gaussian_nll
from pullback.functions.stable.more_losses import kl_divergence as kl_divergence
from pullback.functions.stable.svd import svd as svd


def __dir__() -> list[str]:
    return _names_without_folders(globals())
