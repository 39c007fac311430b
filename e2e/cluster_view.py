"""The objects of the cluster, read with the official client as an administrator."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from attrs import evolve
from kubernetes import client, config
from kubernetes.client.exceptions import ApiException

from e2e.names import GPUS, GROUP, INSTANCES, STOCK, SYSTEM, UNIT_LABEL, VERSION
from gpuruntime.testing import NodeShape

__all__ = ["ClusterView", "condition", "eventually"]

_PATIENCE_SECONDS: Final = 90.0
_POLL_SECONDS: Final = 0.2

T = TypeVar("T")


def eventually(read: Callable[[], T | None], what: str, patience: float = _PATIENCE_SECONDS) -> T:
    """Poll `read` until it returns a true value, and return it. A story has no event to await."""
    deadline = time.monotonic() + patience
    while True:
        found = read()
        if found:
            return found
        assert time.monotonic() < deadline, f"within {patience:.0f} s expected {what}, never seen"
        time.sleep(_POLL_SECONDS)


def condition(item: Any, kind: str = "Ready") -> dict[str, Any]:
    """The condition of this type, {} if there is none."""
    conditions = item.get("status", {}).get("conditions", [])
    return next((dict(one) for one in conditions if one["type"] == kind), {})


class ClusterView:
    """Reads objects from the API server; an object that does not exist is None."""

    def __init__(self, kubeconfig: Path) -> None:
        self.api = config.new_client_from_config(str(kubeconfig))
        # The annotations of the client are incomplete: every field of every model may be None.
        self.core: Any = client.CoreV1Api(self.api)
        self.apps: Any = client.AppsV1Api(self.api)
        self.custom: Any = client.CustomObjectsApi(self.api)
        self.leases: Any = client.CoordinationV1Api(self.api)

    def unit(self, name: str, namespace: str = INSTANCES) -> Any:
        return self._or_none(partial(self.custom.get_namespaced_custom_object, *self._units(namespace), name))

    def units(self, namespace: str, **spec: Any) -> list[Any]:
        """The units of a namespace that have these fields in their spec."""
        items = self.custom.list_namespaced_custom_object(*self._units(namespace))["items"]
        return [item for item in items if spec.items() <= item["spec"].items()]

    def pool(self, name: str) -> Any:
        collection = (GROUP, VERSION, STOCK, "stockpools")
        return self._or_none(partial(self.custom.get_namespaced_custom_object, *collection, name))

    def operations(self) -> list[Any]:
        return list(self.custom.list_namespaced_custom_object(GROUP, VERSION, SYSTEM, "operations")["items"])

    def deployment(self, unit: str, namespace: str = INSTANCES) -> Any:
        return self._or_none(partial(self.apps.read_namespaced_deployment, f"unit-{unit}", namespace))

    def service(self, unit: str) -> Any:
        return self._or_none(partial(self.core.read_namespaced_service, f"unit-{unit}", INSTANCES))

    def pods(self, unit: str, namespace: str = INSTANCES) -> list[Any]:
        """The pods of a unit that are not being deleted."""
        found = self.core.list_namespaced_pod(namespace, label_selector=f"{UNIT_LABEL}={unit}").items
        return [pod for pod in found if pod.metadata.deletion_timestamp is None]

    def ready(self, name: str, namespace: str = INSTANCES) -> Any:
        """Wait until the unit is ready for its current generation."""

        def read() -> Any:
            unit = self.unit(name, namespace)
            found = condition(unit or {})
            is_new = unit is not None and found.get("observedGeneration") == unit["metadata"]["generation"]
            return unit if is_new and found.get("status") == "True" else None

        return eventually(read, f"unit {name} that is ready")

    def stock(self, spec_name: str, number: int) -> list[Any]:
        """Wait until a flavour has exactly `number` stock units, all ready and unclaimed."""

        def read() -> Any:
            units = self.units(STOCK, specName=spec_name)
            free = [unit for unit in units if condition(unit).get("reason") == "StockReady"]
            return units if len(units) == len(free) == number else None

        return eventually(read, f"{number} free stock units of {spec_name}") if number else []

    def remove_all(self, suffix: str) -> None:
        """Delete the pools and units whose specName, and the storages whose name ends with the suffix, without waiting.

        A storage that a pod still has stays.
        """
        for namespace, plural in ((STOCK, "stockpools"), (INSTANCES, "gpuunits"), (STOCK, "gpuunits")):
            collection = (GROUP, VERSION, namespace, plural)
            for item in self.custom.list_namespaced_custom_object(*collection)["items"]:
                if item["spec"]["specName"].endswith(suffix):
                    name = item["metadata"]["name"]
                    self._or_none(partial(self.custom.delete_namespaced_custom_object, *collection, name))
        storages = (GROUP, VERSION, INSTANCES, "gpustorages")
        for item in self.custom.list_namespaced_custom_object(*storages)["items"]:
            if item["metadata"]["name"].endswith(suffix):
                with suppress(ApiException):
                    self.custom.delete_namespaced_custom_object(*storages, item["metadata"]["name"])

    @contextmanager
    def node(self, shape: NodeShape, *, simulated: bool = True) -> Iterator[None]:
        """An additional GPU node for the length of the block.

        Without `simulated`, pods on it have the status that the story writes.
        """
        manifest = evolve(shape, taints={GPUS: "NoSchedule"}).manifest()
        if not simulated:
            manifest["metadata"]["annotations"] = {}
            manifest["status"]["conditions"] = [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]
        self.core.create_node(manifest)
        try:
            yield
        finally:
            self.core.delete_node(shape.name)

    def _units(self, namespace: str) -> tuple[str, str, str, str]:
        return GROUP, VERSION, namespace, "gpuunits"

    def _or_none(self, read: Callable[[], Any]) -> Any:
        try:
            return read()
        except ApiException as error:
            if error.status != 404:
                raise
            return None
