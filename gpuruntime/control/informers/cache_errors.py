"""Errors of a cache."""

__all__ = ["CacheError", "NotSyncedError"]


class CacheError(Exception):
    """The requested informer is invalid; the message says what to do."""


class NotSyncedError(CacheError):
    """Some informers have not synced yet; the message names them and the last error of each."""
