"""The keys of the section `serverless` that concern the sidecars of workers, for the processes that reconcile."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from attrs import frozen

from gpuruntime.desired.rendering import SidecarRendering
from gpuruntime.processes.config.keys import Fault, key
from gpuruntime.processes.config.notations import FILE, IMAGE, Notation
from gpuruntime.processes.errors import StartError

__all__ = ["SidecarKeys"]

_LARGEST_CA: Final = 64 * 1024
_PEM: Final = "-----BEGIN CERTIFICATE-----"


def _activator(text: str) -> str:
    url = urlsplit(text)
    # Reading the port checks it. The path is that of the protocol, and a URL is in the environment of pods.
    is_bare = url.path in {"", "/"} and not (url.query or url.fragment or url.username or url.password)
    if url.scheme not in {"ws", "wss"} or not url.hostname or url.port == 0 or not is_bare:
        raise ValueError(text)
    return f"{url.scheme}://{url.netloc}"


_URL: Final = Notation(
    "a URL without a path and credentials, such as wss://gpuruntime-activator.gpuruntime-system.svc:8443",
    _activator,
    str,
    metavar="URL",
)


# Without slots, so that the section of a process can also have the keys of another class.
@frozen(slots=False)
class SidecarKeys:
    """Sidecars of workers; an image and a URL, or neither."""

    sidecar_image: str | None = key(IMAGE, None, "image of the sidecars of workers: that of gpuruntime itself")
    activator_url: str | None = key(
        _URL, None, "URL of the activators, as workers reach them; wss:// requires TLS", name="activatorURL"
    )
    activator_ca_file: Path | None = key(
        FILE,
        None,
        "authorities of the activators' certificate (PEM), for workers; read at the start",
        name="activatorCAFile",
    )

    def sidecar(self) -> SidecarRendering | None:
        """The settings of sidecars; None if workers are not configured.

        Raises:
            StartError: the file with the authorities cannot be used.
        """
        if self.sidecar_image is None or self.activator_url is None:
            return None
        return SidecarRendering(self.sidecar_image, self.activator_url, self._authorities())

    def _authorities(self) -> str:
        file = self.activator_ca_file
        if file is None:
            return ""
        try:
            text = file.read_text(encoding="ascii")
        except (OSError, UnicodeDecodeError) as error:
            raise StartError(f"serverless.activatorCAFile: cannot read {file}: {error}") from error
        if _PEM not in text or len(text) > _LARGEST_CA:
            raise StartError(
                f"serverless.activatorCAFile: expected certificates in PEM in {file}, at most {_LARGEST_CA} characters"
            )
        return text

    def faults(self) -> Iterator[Fault]:
        if (self.sidecar_image is None) != (self.activator_url is None):
            given, missing = (
                ("activatorURL", "sidecarImage") if self.sidecar_image is None else ("sidecarImage", "activatorURL")
            )
            yield Fault(given, f"expected serverless.{missing} with it: workers need an image and a URL")
        if self.activator_ca_file is not None and (self.activator_url or "").startswith("ws:"):
            yield Fault("activatorURL", "expected wss:// with serverless.activatorCAFile, got ws://")
