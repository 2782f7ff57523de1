"""Second thoughts about suspects, before a mismatch is believed."""
