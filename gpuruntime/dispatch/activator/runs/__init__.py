"""Runs: a delivery becomes a run of a worker, and the run becomes the end of an invocation."""
