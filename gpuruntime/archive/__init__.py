"""Ended invocations: the result store, which writes them to a database and serves them.

::

    RESULTS ──> consumer ──> store (SQLite) ──> routes, or the API in the same process
                                 ^
                              expiry

A result is acknowledged to NATS after the database has committed it, so it is archived at least once, and writing it
again changes nothing.
"""
