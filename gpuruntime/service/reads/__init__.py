"""Reads: shared informers, the cache with live fallback, pages, the watch log, the inventory."""
