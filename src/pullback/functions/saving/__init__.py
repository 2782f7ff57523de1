"""Functions that keep less for their gradient than differentiation would, or compute it in one piece."""
