"""What `pb.targets` lists: what runs in a call, whether its gradient matters, and how to name it."""
