"""Functions that are defined by an equation, and differentiated through it."""
