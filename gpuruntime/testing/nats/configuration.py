"""The files of a server: its configuration, and a user and a password for each process."""

import json
import secrets
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from attrs import frozen

from gpuruntime.api.invocations.access import BUS_USERS, BusUser, authorization, inbox_prefix
from gpuruntime.bus import BusCredentials, BusOptions, BusTls
from gpuruntime.testing.cluster.pki import KeyPair

__all__ = ["ADMIN", "HOST", "NatsFiles", "configuration"]

HOST: Final = "127.0.0.1"
ADMIN: Final = BusUser("admin", publish=(">",), subscribe=(">",))
"""A user of tests and of people, who may do everything."""
# The largest payload of a function, and the most that a stream takes as headers.
_MAX_PAYLOAD: Final = 8 * 2**20 + 2**16
_MAX_MEMORY: Final = 256 * 2**20


@frozen
class NatsFiles:
    """The directory of a server. The user and the password of each process are files that only this user reads."""

    directory: Path

    @property
    def configuration(self) -> Path:
        return self.directory / "nats-server.json"

    @property
    def log(self) -> Path:
        return self.directory / "nats-server.log"

    @property
    def store(self) -> Path:
        return self.directory / "jetstream"

    def user_file(self, user: str) -> Path:
        return self.directory / "users" / f"{user}.user"

    def password_file(self, user: str) -> Path:
        return self.directory / "users" / f"{user}.password"

    def options(self, url: str, user: str, name: str = "", ca: Path | None = None) -> BusOptions:
        """How a process reaches the server as a user. `name` is shown by the server; it is the user's by default."""
        return BusOptions(
            (url,),
            name or user,
            BusCredentials(self.user_file(user), self.password_file(user)),
            None if ca is None else BusTls(ca),
            inbox_prefix(user),
        )

    def passwords(self, users: Iterable[BusUser]) -> dict[str, str]:
        """The password of each user; a new one where there is none."""
        (self.directory / "users").mkdir(parents=True, exist_ok=True, mode=0o700)
        for user in users:
            if not self.password_file(user.name).exists():
                self.set_password(user.name)
        return {user.name: self.password_file(user.name).read_text() for user in users}

    def set_password(self, user: str) -> None:
        """Write a new password, which the server has only after it has read its new configuration."""
        for file, text in ((self.user_file(user), user), (self.password_file(user), secrets.token_urlsafe(24))):
            file.touch(mode=0o600)
            file.write_text(text)

    def write(self, port: int, max_file: int, pair: KeyPair | None, users: Iterable[BusUser] = ()) -> None:
        """Write the configuration, with a password for every user of the product, for the administrator and `users`."""
        everyone = (*BUS_USERS, ADMIN, *users)
        document = configuration(port, self.store, max_file, authorization(self.passwords(everyone), everyone), pair)
        self.configuration.touch(mode=0o600)
        self.configuration.write_text(json.dumps(document, indent=2))


def configuration(
    port: int, store: Path, max_file: int, users: Mapping[str, Any], pair: KeyPair | None
) -> dict[str, Any]:
    """The configuration, which the server reads as JSON. `max_file` is the most bytes that all streams have on disk."""
    document: dict[str, Any] = {
        "server_name": "gpuruntime",
        "host": HOST,
        "port": port,
        "max_payload": _MAX_PAYLOAD,
        "jetstream": {
            "store_dir": str(store),
            "max_file_store": max_file,
            "max_memory_store": _MAX_MEMORY,
            # An acknowledged publish is on disk. The default syncs every two minutes.
            "sync_interval": "always",
        },
        "authorization": dict(users),
    }
    if pair is not None:
        document["tls"] = {"cert_file": str(pair.certificate), "key_file": str(pair.key)}
    return document
