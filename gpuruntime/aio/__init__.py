"""asyncio building blocks: backoff, retries, fair scheduling, event loop checks, garbage collector settings."""
