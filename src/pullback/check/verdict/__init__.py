"""Is a claim right? What is compared at one point, suspects tested again, and the course over all points."""
