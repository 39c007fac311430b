"""Pure functions from a spec to the child objects it asks for: total, deterministic, no I/O."""
