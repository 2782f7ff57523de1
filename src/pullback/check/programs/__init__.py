"""What a check asks of programs: the same for every engine."""
