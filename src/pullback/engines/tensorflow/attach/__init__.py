"""Giving a call a gradient of its own: at once, in a graph, batched, forward."""

from pullback.engines.tensorflow.attach import as_argument

as_argument.install()
