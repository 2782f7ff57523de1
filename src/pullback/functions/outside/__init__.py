"""Code that the framework cannot see."""
