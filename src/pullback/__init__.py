"""Change any gradient. Know it is the one you meant."""

from pullback._define import custom_gradient as custom_gradient
from pullback._define import with_gradient as with_gradient
from pullback._define import with_partials as with_partials
from pullback._rule import DEFAULT as DEFAULT
from pullback.errors import PullbackError as PullbackError
