"""The section `resultStore`: how the API reaches the result store."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from attrs import frozen

from gpuruntime.processes.config.keys import Fault, key
from gpuruntime.processes.config.notations import FILE, Notation
from gpuruntime.service.invocations.archive_client import ArchiveClientOptions

__all__ = ["ResultStoreSection"]


def _url(text: str) -> str:
    url = urlsplit(text)
    # Reading the port checks it. Credentials are in a file: a URL is logged.
    if url.scheme not in {"http", "https"} or not url.hostname or url.username or url.query or url.fragment:
        raise ValueError(text)
    if url.path not in {"", "/"} or url.port == 0:
        raise ValueError(text)
    return f"{url.scheme}://{url.netloc}"


_STORE: Final = Notation(
    "the URL of a result store without a path, such as https://gpuruntime-result-store:8093", _url, str, metavar="URL"
)


@frozen
class ResultStoreSection:
    """The result store: without a URL, ended invocations are not listed, and everything else works."""

    url: str | None = key(_STORE, None, "URL of the result store; https:// checks its certificate")
    token_file: Path | None = key(FILE, None, "file with the token for the result store; read for each request")
    ca_file: Path | None = key(FILE, None, "authorities of the certificate (PEM); without it those of the system")

    @property
    def options(self) -> ArchiveClientOptions | None:
        """The options of a client; None if there is no result store."""
        return None if self.url is None else ArchiveClientOptions(self.url, self.token_file, self.ca_file)

    def faults(self) -> Iterator[Fault]:
        if self.ca_file is not None and not (self.url or "").startswith("https:"):
            yield Fault("caFile", "expected resultStore.url to begin with https:// with it")
        if self.token_file is not None and self.url is None:
            yield Fault("tokenFile", "expected resultStore.url with it, got none")
