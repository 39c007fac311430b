"""The least rights that a process needs, from what its controllers declare."""
