"""Stock on request: seed, claim, release, shrink."""
