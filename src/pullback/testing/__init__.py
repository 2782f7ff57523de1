"""Helpers for people who test gradients."""
