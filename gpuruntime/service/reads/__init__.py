"""Reads: the cache with live fallback, pages, the watch log, the inventory."""
