"""Operations: idempotent writes, executed once, however often and to whichever replica a request is sent.

::

    submit       records a request, and waits for its result      results     where a result shows first
    executor     runs attempts, and what happens if they fail     lease       who may write on behalf of an Operation
    controller   takes over what lost its owner, and deletes      record      the Operation as a value
    background   requests before cleanup                          liveness    whether the API server answers
"""
