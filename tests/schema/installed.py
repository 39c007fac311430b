"""A definition installed on the test cluster for the duration of a test."""

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from attrs import frozen

from gpuruntime.meta import DecodeError, TypedObject, decode
from gpuruntime.testing import AdminClient, ClusterAccess, RefusedError

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@frozen
class Installed:
    """An installed kind, and a namespace for its objects."""

    admin: AdminClient
    api_version: str
    kind: str
    path: str

    def body(self, wire: dict[str, Any]) -> dict[str, Any]:
        """The JSON of an object of this kind, with a generated name."""
        return {**wire, "apiVersion": self.api_version, "kind": self.kind, "metadata": {"generateName": "generated-"}}

    def dry_run(self, wire: dict[str, Any]) -> Any:
        """The result of a strict create as a dry run."""
        return self.admin.create(f"{self.path}?fieldValidation=Strict&dryRun=All", self.body(wire))

    def store(self, wire: dict[str, Any]) -> Any:
        """Create strictly, write the status if there is one, and read what is stored."""
        created = self.admin.create(f"{self.path}?fieldValidation=Strict", self.body(wire))
        path = f"{self.path}/{created['metadata']['name']}"
        if "status" in wire:
            whole = {**created, "status": wire["status"]}
            self.admin.request("PUT", f"{path}/status?fieldValidation=Strict", whole)
        return self.admin.get(path)


@contextmanager
def installed(access: ClusterAccess, definition: dict[str, Any], namespace: str) -> Iterator[Installed]:
    """Install under a group of its own, so that any number of tests may install the same kind."""
    group = f"g{uuid.uuid4().hex[:10]}.example.org"
    names, version = definition["spec"]["names"], definition["spec"]["versions"][0]["name"]
    crd = {
        **definition,
        "metadata": {"name": f"{names['plural']}.{group}"},
        "spec": {**definition["spec"], "group": group, "scope": "Namespaced"},
    }
    admin = access.admin()
    admin.create(CRDS, crd)
    path = f"/apis/{group}/{version}/namespaces/{namespace}/{names['plural']}"
    try:
        eventually(lambda: _is_served(admin, path))
        yield Installed(admin, f"{group}/{version}", names["kind"], path)
    finally:
        admin.delete(f"{CRDS}/{crd['metadata']['name']}")


def eventually(condition: Callable[[], bool]) -> None:
    """Wait until the condition holds, for at most half a minute."""
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _is_served(admin: AdminClient, path: str) -> bool:
    try:
        admin.get(path)
    except RefusedError as error:
        # Not known yet, or its storage is being set up.
        if error.status in {404, 429}:
            return False
        raise
    return True


def without_cel(value: Any) -> Any:
    """The definition or schema without its CEL rules."""
    if isinstance(value, dict):
        return {key: without_cel(inner) for key, inner in value.items() if key != "x-kubernetes-validations"}
    return [without_cel(inner) for inner in value] if isinstance(value, list) else value


def is_decodable(wire: dict[str, Any], kind: type[TypedObject]) -> bool:
    """Whether a value without violations matches its type: rules in Python are not evaluated on 1.0 for an integer."""
    try:
        decode(kind, {"metadata": {}, **wire})
    except DecodeError:
        return False
    return True


def same(expected: Any, found: Any) -> bool:
    """Whether two JSON values are equal, whatever the notation of floats: Go writes 1e+17 without exponent."""
    if isinstance(expected, dict) and isinstance(found, dict):
        return expected.keys() == found.keys() and all(same(expected[key], found[key]) for key in expected)
    if isinstance(expected, list) and isinstance(found, list):
        return len(expected) == len(found) and all(map(same, expected, found))
    if isinstance(expected, float):
        return isinstance(found, int | float) and float(found) == expected
    return type(expected) is type(found) and bool(expected == found)
