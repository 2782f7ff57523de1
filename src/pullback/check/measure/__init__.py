"""What the function says: differences along lines, their error bars, noise."""
