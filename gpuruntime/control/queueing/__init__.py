"""Keys that wait for a worker: each once, the urgent first, nobody starved."""
