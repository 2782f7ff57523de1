"""Change any gradient. Know it is the one you meant."""
