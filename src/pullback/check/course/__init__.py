"""The course of a check: what is tried in which order, until something is wrong."""
