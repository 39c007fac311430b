"""Stock on request: seed, claim, release, delete, reduce."""
