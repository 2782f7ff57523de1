"""What is wrong with a rule: explanations that predict what it gives, confirmed where they were not fitted."""
