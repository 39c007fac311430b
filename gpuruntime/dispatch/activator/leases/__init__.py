"""Leases: the right of one worker to end one delivery of an invocation, signed, and valid at every activator."""
