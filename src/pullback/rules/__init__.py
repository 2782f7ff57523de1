"""Ready-made rules: for `pb.override`, for `pb.with_gradient`, and to be put on a tensor."""

from pullback._rule import unscaled as unscaled
from pullback.rules import quantizers as quantizers
from pullback.rules._activations import deconv as deconv
from pullback.rules._activations import guided as guided
from pullback.rules._activations import straight_through as straight_through
from pullback.rules._activations import surrogate as surrogate
from pullback.rules._flow import clip as clip
from pullback.rules._flow import nan_to_zero as nan_to_zero
from pullback.rules._flow import noise as noise
from pullback.rules._flow import passthrough as passthrough
from pullback.rules._flow import raise_on_nan as raise_on_nan
from pullback.rules._flow import reverse as reverse
from pullback.rules._flow import scale as scale
from pullback.rules._flow import stop as stop
from pullback.rules._flow import tap as tap
from pullback.rules._lrp import lrp_alpha_beta as lrp_alpha_beta
from pullback.rules._lrp import lrp_epsilon as lrp_epsilon
from pullback.rules._lrp import lrp_flat as lrp_flat
from pullback.rules._lrp import lrp_gamma as lrp_gamma
from pullback.rules._lrp import lrp_w_square as lrp_w_square
from pullback.rules._lrp import lrp_z_b as lrp_z_b
from pullback.rules._lrp import lrp_z_plus as lrp_z_plus
from pullback.rules._relevance import bilinear as bilinear
from pullback.rules._relevance import rescale as rescale
