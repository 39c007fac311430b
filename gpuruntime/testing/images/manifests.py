"""OCI manifests and configurations of images, as pure functions."""

import hashlib
import json
import platform
from collections.abc import Mapping, Sequence
from typing import Any, Final, Self

from attrs import evolve, field, frozen

__all__ = [
    "MANIFEST",
    "Blob",
    "Settings",
    "config_document",
    "digest_of",
    "encode",
    "machine_architecture",
    "manifest_document",
]

MANIFEST: Final = "application/vnd.oci.image.manifest.v1+json"
_CONFIG: Final = "application/vnd.oci.image.config.v1+json"
_LAYER: Final = "application/vnd.oci.image.layer.v1.tar"
_ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}


@frozen
class Blob:
    """The name of some bytes: their digest, `sha256:` and 64 hexadecimal digits, and their number."""

    digest: str
    size: int


@frozen
class Settings:
    """How a container of the image starts, unless its pod says otherwise.

    `entrypoint` and `command` together are the command line: a pod replaces the first by `command`, the second by
    `args`. `user` is `UID` or `UID:GID`.
    """

    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    user: str = ""
    environment: Mapping[str, str] = field(factory=dict)
    working_directory: str = ""

    def changed(
        self,
        *,
        entrypoint: Sequence[str] | None = None,
        command: Sequence[str] | None = None,
        user: str | None = None,
        environment: Mapping[str, str] | None = None,
        working_directory: str | None = None,
    ) -> Self:
        """With what is not None, as in a Dockerfile: variables are added, and an entry point resets the command."""
        inherited = self.command if entrypoint is None else ()
        return evolve(
            self,
            entrypoint=self.entrypoint if entrypoint is None else tuple(entrypoint),
            command=inherited if command is None else tuple(command),
            user=self.user if user is None else user,
            environment={**self.environment, **(environment or {})},
            working_directory=self.working_directory if working_directory is None else working_directory,
        )

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """The settings of a configuration, as `config_document` writes it."""
        given = config.get("config", {})
        return cls(
            tuple(given.get("Entrypoint", ())),
            tuple(given.get("Cmd", ())),
            given.get("User", ""),
            dict(variable.split("=", 1) for variable in given.get("Env", ())),
            given.get("WorkingDir", ""),
        )


def config_document(settings: Settings, layers: Sequence[Blob], architecture: str) -> dict[str, Any]:
    """The configuration of an image. The layers are not compressed: their digests are those of their contents."""
    given = {
        "Entrypoint": list(settings.entrypoint),
        "Cmd": list(settings.command),
        "User": settings.user,
        "Env": [f"{name}={value}" for name, value in settings.environment.items()],
        "WorkingDir": settings.working_directory,
    }
    return {
        "architecture": architecture,
        "os": "linux",
        "config": {name: value for name, value in given.items() if value},
        "rootfs": {"type": "layers", "diff_ids": [one.digest for one in layers]},
    }


def manifest_document(config: Blob, layers: Sequence[Blob]) -> dict[str, Any]:
    """The manifest of an image with this configuration and these layers, the lowest first."""
    return {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": {"mediaType": _CONFIG, "digest": config.digest, "size": config.size},
        "layers": [{"mediaType": _LAYER, "digest": one.digest, "size": one.size} for one in layers],
    }


def encode(document: Mapping[str, Any]) -> bytes:
    """The bytes of a document; equal documents have equal bytes."""
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()


def digest_of(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def machine_architecture() -> str:
    """The architecture of this machine in the words of OCI."""
    machine = platform.machine()
    return _ARCHITECTURES.get(machine, machine)
