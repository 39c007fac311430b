"""Operations: idempotent writes, executed once, however often and to whichever replica a request is sent."""
