"""The phases of the set-up of stories, reported with their duration."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from attrs import frozen

__all__ = ["Phases"]


@frozen
class Phases:
    """Reports each phase of a set-up when it ends, with its seconds."""

    say: Callable[[str], None]

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        begun = time.monotonic()
        yield
        self.say(f"set-up: {name}: {time.monotonic() - begun:.1f} s")
