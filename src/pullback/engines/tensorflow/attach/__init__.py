"""Giving a call a gradient of its own: at once, in a graph, batched, forward."""
