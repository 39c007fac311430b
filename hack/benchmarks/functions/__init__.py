"""Scenarios of invocations: what single steps cost on this machine, and what the product adds."""
