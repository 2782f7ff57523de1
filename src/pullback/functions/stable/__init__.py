"""Functions whose gradients are right where those of their formulas overflow, cancel or are NaN."""
