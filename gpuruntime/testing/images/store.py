"""A directory of images: blobs by digest, and the manifest that each name means."""

import fcntl
import hashlib
import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import BufferedRandom
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, unquote

from attrs import frozen

from gpuruntime.testing.images.bases import BASES
from gpuruntime.testing.images.layers import Files, layer
from gpuruntime.testing.images.manifests import (
    Blob,
    Settings,
    config_document,
    digest_of,
    encode,
    machine_architecture,
    manifest_document,
)
from gpuruntime.testing.images.references import Reference

__all__ = ["ImageStore"]

_BLOBS: Final = "blobs"
_NAMES: Final = "names"
_SCRATCH: Final = "scratch"


@frozen
class ImageStore:
    """The images below a directory, which `registry` serves to nodes.

    Any number of processes may write and read at the same time: a name means a whole image or nothing. What was
    written stays, and a process that is killed leaves no half of a blob. Equal files give an equal digest.
    """

    directory: Path

    def add(
        self,
        name: str,
        files: Files | None = None,
        *,
        layers: Sequence[Files] = (),
        base: str | None = None,
        entrypoint: Sequence[str] | None = None,
        command: Sequence[str] | None = None,
        user: str | None = None,
        environment: Mapping[str, str] | None = None,
        working_directory: str | None = None,
    ) -> str:
        """Make an image, and give it a name, also if another image has it; returns the whole name.

        Args:
            name: `[HOST/]PATH[:TAG]`; pods use it as their image.
            files: the files by absolute path; see `Files`.
            layers: files in more than one layer, the lowest first; `files` are on top of them.
            base: the name of the image below: one of this store, or `busybox` or `python`, which are made from the
                programs of this machine when they are first used.
            entrypoint: the program and its first arguments; a pod replaces it by its `command`.
            command: the arguments after it; a pod replaces them by its `args`.
            user: `UID` or `UID:GID`; root if neither this nor the base has one.
            environment: variables, in addition to those of the base.
            working_directory: where the program starts.

        Raises:
            ValueError: the name, a path or the base is not usable.
        """
        reference = Reference.parse(name)
        below, settings = ((), Settings()) if base is None else self._base(base)
        contents = [*layers, *([files] if files else [])]
        stacked = (*below, *(self._add_layer(one) for one in contents))
        changed = settings.changed(
            entrypoint=entrypoint,
            command=command,
            user=user,
            environment=environment,
            working_directory=working_directory,
        )
        config = self._add_bytes(encode(config_document(changed, stacked, machine_architecture())))
        manifest = self._add_bytes(encode(manifest_document(config, stacked)))
        with self._draft() as draft:
            draft.write(manifest.digest.encode())
            _publish(draft, self._name_file(reference))
        return str(reference)

    def remove(self, name: str) -> None:
        """Forget a name, so that pulls of it fail. Its blobs stay."""
        self._name_file(Reference.parse(name)).unlink(missing_ok=True)

    def names(self) -> list[str]:
        """The whole names of all images."""
        return sorted(unquote(one.name) for one in (self.directory / _NAMES).glob("*"))

    def digest(self, name: str) -> str | None:
        """The digest of the manifest that a name means, None if there is no such image. `name` may be any text."""
        try:
            return self._name_file(Reference.parse(name)).read_text()
        except (OSError, ValueError):
            return None

    def blob(self, digest: str) -> Path | None:
        """The file of a blob, None if there is no such blob. `digest` may be any text that a client sent."""
        kind, _, digits = digest.partition(":")
        if kind != "sha256" or len(digits) != 64 or set(digits) - set("0123456789abcdef"):
            return None
        path = self._blob_file(digest)
        return path if path.is_file() else None

    def _base(self, name: str) -> tuple[tuple[Blob, ...], Settings]:
        digest = self.digest(name) or self._made_base(name)
        manifest = self._document(digest)
        layers = tuple(Blob(one["digest"], one["size"]) for one in manifest["layers"])
        return layers, Settings.from_config(self._document(manifest["config"]["digest"]))

    def _made_base(self, name: str) -> str:
        make = BASES.get(name)
        if make is None:
            known = ", ".join([*BASES, *self.names()])
            raise ValueError(f"base {name!r}: there is no such image here; expected one of {known}")
        self.directory.mkdir(parents=True, exist_ok=True)
        with (self.directory / "bases.lock").open("w") as lock:
            # Only one process makes a base, which takes seconds and tens of megabytes.
            fcntl.flock(lock, fcntl.LOCK_EX)
            found = self.digest(name)
            if found is None:
                made = make()
                self.add(name, made.files, environment=made.environment, command=made.command)
                found = self.digest(name)
        assert found is not None  # noqa: S101 - it was added
        return found

    def _document(self, digest: str) -> Any:
        return json.loads(self._blob_file(digest).read_bytes())

    def _add_layer(self, files: Files) -> Blob:
        with self._draft() as draft:
            layer(files).write_to(draft)
            draft.seek(0)
            blob = Blob(f"sha256:{hashlib.file_digest(draft, 'sha256').hexdigest()}", draft.tell())
            _publish(draft, self._blob_file(blob.digest))
        return blob

    def _add_bytes(self, content: bytes) -> Blob:
        blob = Blob(digest_of(content), len(content))
        with self._draft() as draft:
            draft.write(content)
            _publish(draft, self._blob_file(blob.digest))
        return blob

    @contextmanager
    def _draft(self) -> Iterator[BufferedRandom]:
        """A file that is gone at the end unless it was published."""
        scratch = self.directory / _SCRATCH
        scratch.mkdir(parents=True, exist_ok=True)
        path = scratch / uuid.uuid4().hex
        try:
            with path.open("w+b") as draft:
                yield draft
        finally:
            path.unlink(missing_ok=True)

    def _name_file(self, reference: Reference) -> Path:
        return self.directory / _NAMES / quote(str(reference), safe="")

    def _blob_file(self, digest: str) -> Path:
        return self.directory / _BLOBS / digest.replace(":", "-")


def _publish(draft: BufferedRandom, target: Path) -> None:
    draft.flush()
    target.parent.mkdir(parents=True, exist_ok=True)
    Path(draft.name).replace(target)
