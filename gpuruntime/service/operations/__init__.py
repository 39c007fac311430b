"""Operations: idempotent writes, executed once however often a request is sent and to whichever replica."""
