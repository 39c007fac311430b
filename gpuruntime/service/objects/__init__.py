"""What writes of all kinds share: updates, deletions, admission, namespace checks, redaction."""
