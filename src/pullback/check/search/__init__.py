"""Where to look: points, directions to move in, and where a function may be tried."""
