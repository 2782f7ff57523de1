"""Outcomes as lines in a terminal, and as files for people and programs."""
