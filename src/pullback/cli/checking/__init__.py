"""What `pullback check` does: find custom gradients, make inputs for them, judge each, and show what came of it."""
