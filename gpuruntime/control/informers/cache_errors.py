"""What a cache cannot give."""

__all__ = ["CacheError", "NotSyncedError"]


class CacheError(Exception):
    """The cache was asked for something that it cannot give; the message says what to do."""


class NotSyncedError(CacheError):
    """Some informers have not seen a full state yet; the message names them and the last error of each."""
