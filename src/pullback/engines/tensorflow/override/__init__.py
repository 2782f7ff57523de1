"""Changing the gradient of code that is not ours: scopes, ops, regions, functions, export."""
