"""What the leading activator does, and no other: streams, finalizers, deletions, expiry. All of it can be repeated."""
