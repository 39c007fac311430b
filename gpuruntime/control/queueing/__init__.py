"""The work queue: deduplicated keys with priorities, delays and per-key backoff."""
