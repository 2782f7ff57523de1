"""Layers, models, losses and operations with another gradient, and how they are saved."""
