"""Functions whose gradients are better than what differentiation of their formulas gives."""

from pullback.functions._attention import attention as attention
from pullback.functions._checkpoint import checkpoint as checkpoint
from pullback.functions._cross_entropy import binary_cross_entropy as binary_cross_entropy
from pullback.functions._cross_entropy import categorical_cross_entropy as categorical_cross_entropy
from pullback.functions._cross_entropy import (
    sparse_categorical_cross_entropy as sparse_categorical_cross_entropy,
)
from pullback.functions._elements import cumprod as cumprod
from pullback.functions._elements import safe_where as safe_where
from pullback.functions._exponentials import log1mexp as log1mexp
from pullback.functions._exponentials import log_sub_exp as log_sub_exp
from pullback.functions._exponentials import logaddexp as logaddexp
from pullback.functions._exponentials import logsumexp as logsumexp
from pullback.functions._external import external as external
from pullback.functions._fused import gelu as gelu
from pullback.functions._fused import layer_norm as layer_norm
from pullback.functions._fused import rms_norm as rms_norm
from pullback.functions._fused import softmax_cross_entropy as softmax_cross_entropy
from pullback.functions._fused import swiglu as swiglu
from pullback.functions._lengths import atan2 as atan2
from pullback.functions._lengths import hypot as hypot
from pullback.functions._lengths import norm as norm
from pullback.functions._lengths import normalize as normalize
from pullback.functions._lengths import sqrt as sqrt
from pullback.functions._lengths import std as std
from pullback.functions._linear_cross_entropy import linear_cross_entropy as linear_cross_entropy
from pullback.functions._matrices import eigh as eigh
from pullback.functions._matrices import funm as funm
from pullback.functions._matrices import logdet as logdet
from pullback.functions._matrices import polar as polar
from pullback.functions._matrices import sqrtm as sqrtm
from pullback.functions._more_losses import binary_focal_cross_entropy as binary_focal_cross_entropy
from pullback.functions._more_losses import gaussian_nll as gaussian_nll
from pullback.functions._more_losses import kl_divergence as kl_divergence
from pullback.functions._odeint import odeint as odeint
from pullback.functions._reversible import reversible as reversible
from pullback.functions._solutions import argmin as argmin
from pullback.functions._solutions import fixed_point as fixed_point
from pullback.functions._solutions import root as root
from pullback.functions._solve_options import Solve as Solve
from pullback.functions._solve_options import SolveLog as SolveLog
from pullback.functions._svd import svd as svd
