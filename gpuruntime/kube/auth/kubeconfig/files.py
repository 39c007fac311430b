"""Kubeconfig files, read and merged; each value knows its file and path, for errors."""

import base64
import binascii
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from attrs import field, frozen

from gpuruntime.kube.auth.credentials import CredentialsError
from gpuruntime.kube.auth.tls import Pem

__all__ = ["Field", "Kubeconfig", "load"]


@frozen
class Field:
    """A value in a kubeconfig. Its methods take a key of a mapping; None stands for absent, null and empty."""

    file: Path
    path: str
    value: Any = field(repr=False)

    def error(self, problem: str) -> CredentialsError:
        return CredentialsError(f"{self.file}: {self.path}: {problem}" if self.path else f"{self.file}: {problem}")

    def at(self, key: str) -> "Field | None":
        if not isinstance(self.value, dict):
            raise self.wrong_type("a mapping")
        value = self.value.get(key)
        return None if value is None else Field(self.file, f"{self.path}.{key}" if self.path else key, value)

    def text(self, key: str) -> str | None:
        found = self.at(key)
        if found is None:
            return None
        if not isinstance(found.value, str):
            raise found.wrong_type("a string")
        return found.value or None

    def required_text(self, key: str) -> str:
        text = self.text(key)
        if text is None:
            raise self.error(f"expected {key}, found none")
        return text

    def flag(self, key: str) -> bool:
        found = self.at(key)
        if found is None:
            return False
        if not isinstance(found.value, bool):
            raise found.wrong_type("true or false")
        return found.value

    def entries(self, key: str) -> tuple["Field", ...]:
        found = self.at(key)
        if found is None:
            return ()
        if not isinstance(found.value, list):
            raise found.wrong_type("a list")
        return tuple(Field(found.file, f"{found.path}[{i}]", value) for i, value in enumerate(found.value))

    def texts(self, key: str) -> tuple[str, ...]:
        entries = self.entries(key)
        for entry in entries:
            if not isinstance(entry.value, str):
                raise entry.wrong_type("a string")
        return tuple(entry.value for entry in entries)

    def names(self) -> tuple[str, ...]:
        if not isinstance(self.value, dict) or not all(isinstance(key, str) for key in self.value):
            raise self.wrong_type("a mapping with string keys")
        return tuple(self.value)

    def beside(self, key: str) -> Path | None:
        """The path in a field; a relative one starts in the directory of the kubeconfig."""
        text = self.text(key)
        return None if text is None else self.file.parent / text

    def pem(self, key: str) -> Pem | None:
        """The inline PEM of `<key>-data`, else the file that `<key>` names."""
        inline = self.text(f"{key}-data")
        if inline is None:
            path = self.beside(key)
            return None if path is None else Pem(f"{self.file}: {self.path}.{key}", path)
        place = f"{self.file}: {self.path}.{key}-data"
        try:
            return Pem(place, base64.b64decode("".join(inline.split()), validate=True))
        except (binascii.Error, ValueError) as error:
            raise CredentialsError(f"{place}: expected base64") from error

    def wrong_type(self, expected: str) -> CredentialsError:
        return self.error(f"expected {expected}, found a value of type {type(self.value).__name__}")


@frozen
class Kubeconfig:
    """Merged kubeconfig files. The first file to define an entry wins; entries are never merged."""

    files: tuple[Path, ...]
    current_context: str | None
    contexts: Mapping[str, Field]
    clusters: Mapping[str, Field]
    users: Mapping[str, Field]


def load(files: Iterable[Path]) -> Kubeconfig:
    """Read and merge the files that exist, in order of precedence.

    Raises:
        CredentialsError: no file exists, a file is unreadable or not a kubeconfig, or a file defines a name twice.
    """
    wanted = tuple(dict.fromkeys(file.absolute() for file in files))
    documents = tuple(document for document in map(_read, wanted) if document is not None)
    if not documents:
        raise CredentialsError(f"no kubeconfig: looked for {', '.join(map(str, wanted)) or 'none'}")
    return Kubeconfig(
        files=tuple(document.file for document in documents),
        current_context=next(filter(None, (document.text("current-context") for document in documents)), None),
        contexts=_merged(documents, "contexts", "context"),
        clusters=_merged(documents, "clusters", "cluster"),
        users=_merged(documents, "users", "user"),
    )


def _read(file: Path) -> Field | None:
    try:
        content = file.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise CredentialsError(f"{file}: cannot be read: {error.strerror}") from error
    # Imported here: YAML costs memory and start-up time, and a process in a cluster has no kubeconfig.
    from gpuruntime.kube.auth.kubeconfig.yaml_parser import parse_yaml  # noqa: PLC0415

    try:
        value = parse_yaml(content)
    except ValueError as error:
        raise CredentialsError(f"{file}: {error}") from error
    document = Field(file, "", {} if value is None else value)
    if not isinstance(document.value, dict):
        raise document.error(f"expected a kubeconfig, found a value of type {type(value).__name__}")
    return document


def _merged(documents: Iterable[Field], section: str, kind: str) -> Mapping[str, Field]:
    merged: dict[str, Field] = {}
    for document in documents:
        own: dict[str, Field] = {}
        for entry in document.entries(section):
            name = entry.required_text("name")
            if name in own:
                names = ", ".join(sorted(own))
                raise entry.error(f"the name {name!r} is defined twice in {section}; the names before it are: {names}")
            own[name] = entry.at(kind) or Field(entry.file, f"{entry.path}.{kind}", {})
        merged = {**own, **merged}
    return merged
