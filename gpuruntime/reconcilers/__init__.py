"""Reconcilers, one package or module per kind: read the caches, write the difference, report the status.

None imports another.
"""
