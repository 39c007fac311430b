"""What the use cases of all kinds share: creations, updates, deletions, waits, admission, namespace checks."""
