"""What pytest learns from pullback."""
