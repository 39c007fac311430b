"""Names of images, as container runtimes read them: `busybox` is `docker.io/library/busybox:latest`."""

import re
from typing import Final, Self

from attrs import frozen

__all__ = ["DEFAULT_HOST", "Reference"]

DEFAULT_HOST: Final = "docker.io"
_HOST: Final = r"(?:localhost|[\w.-]+\.[\w.-]+|[\w.-]+:\d+|localhost:\d+)"
_PART: Final = r"[a-z0-9]+(?:(?:\.|_{1,2}|-+)[a-z0-9]+)*"
_REFERENCE: Final = re.compile(
    rf"(?:(?P<host>{_HOST})/)?(?P<path>{_PART}(?:/{_PART})*)(?::(?P<tag>\w[\w.-]{{0,127}}))?", re.ASCII
)


@frozen
class Reference:
    """A whole name: the host of the registry, the path of the repository, and the tag."""

    host: str
    path: str
    tag: str

    @classmethod
    def parse(cls, name: str) -> Self:
        """The whole name behind a short one.

        Raises:
            ValueError: it is no name of an image.
        """
        match = _REFERENCE.fullmatch(name)
        if match is None:
            raise ValueError(
                f"image {name!r}: expected [HOST/]PATH[:TAG], with a path in lower case, as in team/server:1.2"
            )
        host, path = match["host"] or DEFAULT_HOST, match["path"]
        if host == DEFAULT_HOST and "/" not in path:
            path = f"library/{path}"
        return cls(host, path, match["tag"] or "latest")

    def __str__(self) -> str:
        return f"{self.host}/{self.path}:{self.tag}"
