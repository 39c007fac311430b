"""How many files a process may open: as many as the system lets it, and not the small number that shells begin with."""

import resource
from contextlib import suppress
from typing import Final

__all__ = ["raise_open_files"]

_ENOUGH: Final = 65_536


def raise_open_files() -> None:
    """Raise the soft limit to the hard one, 65,536 at most. A limit that is higher already is left alone.

    The soft limit is low for the sake of programs that use `select`, which neither of our event loops does.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _ENOUGH if hard == resource.RLIM_INFINITY else min(hard, _ENOUGH)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        # Where that is forbidden, the process does with what it has.
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
