"""The section of accessors, for the processes that reconcile storages."""

from collections.abc import Iterator
from typing import Final

from attrs import frozen

from gpuruntime.desired.storage.accessor import AccessorRendering
from gpuruntime.gateway.signing.keys import MOST_PUBLIC_KEYS, AccessKeyError, check_public_key
from gpuruntime.processes.config.keys import Fault, key, keys
from gpuruntime.processes.config.notations import Notation

__all__ = ["Accessor"]


def _public_key(text: str) -> str:
    try:
        return check_public_key(text)
    except AccessKeyError as error:
        raise ValueError(str(error)) from error


def _image(text: str) -> str:
    if not text or not text.isascii() or not text.isprintable() or " " in text:
        raise ValueError(text)
    return text


_PUBLIC_KEY: Final = Notation("a public key that `gpuruntime access-key` printed", _public_key, str, metavar="KEY")
_IMAGE: Final = Notation("the name of an image", _image, str, metavar="IMAGE")


@frozen
class Accessor:
    """Accessors of storages; both keys or neither."""

    image: str | None = key(_IMAGE, None, "image of accessors: that of gpuruntime itself")
    public_keys: tuple[str, ...] = keys(
        _PUBLIC_KEY, (), "public key of the access gateway, which accessors trust; two while keys are rotated"
    )

    @property
    def rendering(self) -> AccessorRendering | None:
        """None if accessors are not configured."""
        if self.image is None or not self.public_keys:
            return None
        return AccessorRendering(self.image, self.public_keys)

    def faults(self) -> Iterator[Fault]:
        if (self.image is None) != (not self.public_keys):
            given, missing = ("publicKeys", "image") if self.image is None else ("image", "publicKeys")
            yield Fault(given, f"expected accessor.{missing} with it: accessors need an image and a public key")
        if len(self.public_keys) > MOST_PUBLIC_KEYS:
            yield Fault("publicKeys", f"expected at most {MOST_PUBLIC_KEYS}, got {len(self.public_keys)}")
