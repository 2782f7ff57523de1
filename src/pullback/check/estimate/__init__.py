"""What the function itself says of its derivative: differences along lines, intervals, noise."""
