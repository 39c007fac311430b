"""What Ready means for containers that really run."""

import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import groupby
from typing import Any

import pytest

from gpuruntime.api import reasons
from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.control import Change
from gpuruntime.meta import Condition, ObjectKey, find_condition
from gpuruntime.testing.images import ImageStore
from tests.product_scenes import Observer, create_unit
from tests.reconcilers.unit_scenes import UnitWorld
from tests.testing.node.pods import BUSYBOX

pytestmark = pytest.mark.real_node
REAL_NODE = "gpuruntime.local/real-node"
# A busy machine may take seconds to notice that a container ended.
PATIENT = {"minReadySeconds": 30}
PROBE = {"httpGet": {"port": 8080, "path": "/health"}, "periodSeconds": 1}


@pytest.fixture(scope="module", autouse=True)
def busybox(kube_images: ImageStore) -> None:
    kube_images.add(BUSYBOX, base="busybox")


def shell(script: str, **template: Any) -> dict[str, Any]:
    return {"template": {"command": ["sh", "-c", script], **template}}


@asynccontextmanager
async def conditions_of(
    world: UnitWorld, observer: Observer, namespace: str, **spec: Any
) -> AsyncIterator[tuple[ObjectKey, list[Condition]]]:
    """A unit on the real node, and all of its Ready conditions, in their order."""
    seen: list[Condition] = []

    def note(change: Change[GPUUnit]) -> None:
        ready = None if change.after is None else find_condition(change.after.status.conditions, "Ready")
        if ready is not None and (not seen or seen[-1] != ready):
            seen.append(ready)

    placement = {"nodeSelector": {REAL_NODE: "true"}, "tolerations": [{"key": REAL_NODE, "operator": "Exists"}]}
    key = ObjectKey(namespace, "demo")
    await observer.units.subscribe(note, key)
    async with world.operator(min_ready_seconds=3):
        create_unit(
            world.access.admin(),
            namespace,
            "demo",
            **{"image": BUSYBOX, "cpu": "200m", "memory": "64Mi", **placement, **spec},
        )
        yield key, seen


def in_order(seen: list[Condition]) -> list[str]:
    return [reason for reason, _ in groupby(condition.reason for condition in seen)]


def restarted(times: int) -> Callable[[Observer], bool]:
    """Whether the pod of the unit was restarted this number of times."""

    def is_restarted(observer: Observer) -> bool:
        statuses = [status for pod in observer.pods.store.list().items for status in pod.status.container_statuses]
        return any(status.restart_count >= times for status in statuses)

    return is_restarted


async def test_a_program_that_crashes_at_once_is_never_ready_and_its_last_words_are_quoted(
    world: UnitWorld, observer: Observer, kube_namespace: str
) -> None:
    program = shell("echo no model at /models >&2; sleep 0.3; exit 7")
    async with conditions_of(world, observer, kube_namespace, **program, **PATIENT) as (key, seen):
        await observer.because(key, reasons.CRASH_LOOPING, "exit code 7: no model at /models (ended 3 times")

    assert in_order(seen) == [reasons.UNIT_PROGRESSING, reasons.CRASH_LOOPING]


async def test_a_readiness_probe_that_fails_is_named_with_its_answer(
    world: UnitWorld, observer: Observer, kube_namespace: str
) -> None:
    program = shell("mkdir /tmp/www; exec httpd -f -p 8080 -h /tmp/www", readinessProbe=PROBE)
    async with conditions_of(world, observer, kube_namespace, **program) as (key, seen):
        await observer.because(
            key, reasons.UNIT_PROGRESSING, "readiness probe fails: HTTP probe failed with statuscode: 404"
        )

    assert in_order(seen) == [reasons.UNIT_PROGRESSING]


async def test_a_command_that_is_not_in_the_image_is_reported_once(
    world: UnitWorld, observer: Observer, kube_namespace: str
) -> None:
    async with conditions_of(world, observer, kube_namespace, template={"command": ["nosuch"]}) as (key, seen):
        await observer.because(key, reasons.POD_STARTUP_FAILED, 'exec: "nosuch"')
        await observer.pods.until(lambda _: restarted(2)(observer))

    assert in_order(seen) == [reasons.UNIT_PROGRESSING, reasons.POD_STARTUP_FAILED]
    assert [condition.reason for condition in seen].count(reasons.POD_STARTUP_FAILED) == 1


async def test_a_unit_whose_image_is_published_later_becomes_ready_by_itself(
    world: UnitWorld, observer: Observer, kube_namespace: str, kube_images: ImageStore
) -> None:
    image = f"late-{uuid.uuid4().hex[:8]}:1"
    async with conditions_of(world, observer, kube_namespace, image=image) as (key, seen):
        await observer.because(key, reasons.IMAGE_PULL_FAILED, "not found")
        kube_images.add(image, base="busybox")
        await observer.ready(key)

    assert in_order(seen) == [
        reasons.UNIT_PROGRESSING,
        reasons.IMAGE_PULL_FAILED,
        reasons.UNIT_PROGRESSING,
        reasons.UNIT_READY,
    ]


async def test_a_program_that_needs_too_much_memory_is_reported_so_with_its_last_words(
    world: UnitWorld, observer: Observer, kube_namespace: str
) -> None:
    program = shell("echo loading weights; x=$(head -c 200000000 /dev/zero | tr '\\0' x); sleep 60")
    async with conditions_of(world, observer, kube_namespace, **program, **PATIENT, memory="32Mi", cpu="1") as (
        key,
        seen,
    ):
        await observer.because(key, reasons.OUT_OF_MEMORY, "loading weights (ended 2 times")

    assert in_order(seen) == [reasons.UNIT_PROGRESSING, reasons.OUT_OF_MEMORY]
