"""Reconcilers, one file a kind: read the caches, write the difference, report the status. None imports another."""
