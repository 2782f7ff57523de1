"""Cases on which the check is judged, not tuned: run them, do not read them while changing it."""
