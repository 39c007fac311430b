"""Writes that are safe to repeat: real differences only, nothing of others, and no endless fights."""
