"""What is wrong with a rule, found by trying and told in words."""
