"""A program with a client that openapi-python-client made from the description of the API: the life of a unit.

    python client_program.py URL TOKEN MARK

`MARK` is what all names end with. It ends with an AssertionError where the API does something else than described.
"""

import json
import sys
import time
from collections.abc import Iterator

from gpu_runtime_client import AuthenticatedClient
from gpu_runtime_client.api.gpu_units import (
    create_gpu_unit,
    delete_gpu_unit,
    get_gpu_unit,
    update_gpu_unit,
    wait_for_gpu_unit,
    watch_gpu_unit,
)
from gpu_runtime_client.api.jobs import get_job
from gpu_runtime_client.api.stock_units import list_stock_units, seed_stock_units
from gpu_runtime_client.models import (
    CreateUnitBody,
    ErrorResponse,
    JobViewResponse,
    LabelsInput,
    ResetView,
    ResetViewEvent,
    SeedStockBody,
    UnitAccessInput,
    UnitPortInput,
    UnitTemplateInput,
    UnitView,
    UnitViewEvent,
    UnitViewListResponse,
    UnitViewResponse,
    UpdateUnitBody,
)
from httpx import Timeout

PATIENCE_SECONDS = 90


def main(url: str, token: str, mark: str) -> None:
    """Stock is made, claimed, changed, waited for, followed and given back."""
    spec, name = f"generated-{mark}", f"generated-{mark}"
    with AuthenticatedClient(f"{url}/api/v1", token, raise_on_unexpected_status=True, timeout=Timeout(100)) as client:
        make_stock(client, spec)
        claimed = claim(client, spec, name)
        changed = change(client, claimed)
        follow(client, changed)
        give_back(client, name)


def make_stock(client: AuthenticatedClient, spec: str) -> None:
    body = SeedStockBody(spec_name=spec, replicas=1, cpu="10m", memory="16Mi", gpu=1, operation_id=f"seed-{spec}")
    made = seed_stock_units.sync_detailed(client=client, body=body)
    assert (made.status_code, made.headers["Idempotency-Key"]) == (202, f"seed-{spec}"), made
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        job = get_job.sync(f"seed-{spec}", client=client)
        stock = list_stock_units.sync(client=client, spec_name=spec, phase="Ready")
        assert isinstance(job, JobViewResponse), job
        assert isinstance(stock, UnitViewListResponse), stock
        if job.data.status == "succeeded" and len(stock.data) == 1:
            return
        assert time.monotonic() < deadline, (job, stock)
        time.sleep(0.2)  # stock has no route to wait at


def claim(client: AuthenticatedClient, spec: str, name: str) -> UnitView:
    ports = [UnitPortInput(name="http", port=8080), UnitPortInput(name="admin", port=8081)]
    body = CreateUnitBody(
        name=name,
        spec_name=spec,
        image="nginx:1.27",
        template=UnitTemplateInput(args=["serve"], ports=ports),
        access=UnitAccessInput(primary_port="http", scheme="https"),
        operation_id=f"claim-{name}",
    )
    made = create_gpu_unit.sync_detailed(client=client, body=body, wait="Ready", timeout=PATIENCE_SECONDS)
    assert isinstance(made.parsed, UnitViewResponse), made
    assert (made.status_code, made.parsed.data.phase, made.parsed.data.gpu) == (201, "Ready", 1), made
    again = create_gpu_unit.sync_detailed(client=client, body=body)
    assert (again.status_code, again.headers["Idempotency-Key"]) == (200, f"claim-{name}"), again
    return made.parsed.data


def change(client: AuthenticatedClient, unit: UnitView) -> UnitView:
    """Only what is named changes: the scheme of the URL stays, which the body does not name."""
    body = UpdateUnitBody(
        access=UnitAccessInput(primary_port="admin"), labels=LabelsInput.from_dict({"team": "research"})
    )
    seen = get_gpu_unit.sync_detailed(unit.name, client=client)
    stale = update_gpu_unit.sync_detailed(unit.name, client=client, body=body, if_match='"1"')
    assert isinstance(stale.parsed, ErrorResponse), stale
    assert (stale.status_code, stale.parsed.error.code) == (412, "conflict"), stale
    changed = update_gpu_unit.sync(unit.name, client=client, body=body, if_match=seen.headers["ETag"])
    assert isinstance(changed, UnitViewResponse), changed
    waited = wait_for_gpu_unit.sync_detailed(unit.name, client=client, for_="Ready", timeout=PATIENCE_SECONDS)
    assert isinstance(waited.parsed, UnitViewResponse), waited
    after = waited.parsed.data
    assert (waited.status_code, after.uid, after.labels) == (200, unit.uid, changed.data.labels), waited
    assert after.access_url == f"https://unit-{unit.name}.{unit.namespace}.svc.cluster.local:8081", after
    return after


def follow(client: AuthenticatedClient, unit: UnitView) -> None:
    """The generated function would read a stream to its end, which has none: the request is its own, all else not."""
    request = watch_gpu_unit._get_kwargs(unit.name)  # noqa: SLF001 -- there is no other way to get the request
    with client.get_httpx_client().stream(**request) as stream:
        events = events_of(stream.iter_lines())
        reset, added, synced = next(events), next(events), next(events)
    assert isinstance(reset, ResetViewEvent), reset
    assert isinstance(added, UnitViewEvent), added
    assert isinstance(synced, ResetViewEvent), synced
    assert (reset.event, added.event, synced.event) == ("reset", "added", "synced")
    assert ResetView.from_dict(json.loads(synced.data)).count == 1, synced
    assert UnitView.from_dict(json.loads(added.data)).uid == unit.uid, added


def events_of(lines: Iterator[str]) -> Iterator[ResetViewEvent | UnitViewEvent]:
    fields: dict[str, str] = {}
    for line in lines:
        name, _, text = line.partition(":")
        if name:
            fields[name] = text.removeprefix(" ")
        elif not line and "event" in fields:
            of_state = fields["event"] in {"reset", "synced"}
            yield ResetViewEvent.from_dict(fields) if of_state else UnitViewEvent.from_dict(fields)
            fields = {}


def give_back(client: AuthenticatedClient, name: str) -> None:
    for _ in range(2):
        gone = delete_gpu_unit.sync_detailed(name, client=client, operation_id=f"delete-{name}")
        assert (gone.status_code, gone.headers["Idempotency-Key"]) == (204, f"delete-{name}"), gone
    differing = delete_gpu_unit.sync_detailed(name, client=client, operation_id="one", idempotency_key="other")
    assert isinstance(differing.parsed, ErrorResponse), differing
    assert (differing.status_code, differing.parsed.error.code) == (400, "invalid_request"), differing
    ended = wait_for_gpu_unit.sync_detailed(name, client=client, for_="Deleted", timeout=PATIENCE_SECONDS)
    assert isinstance(ended.parsed, UnitViewResponse), ended
    assert (ended.status_code, ended.parsed.data.deleted) == (200, True), ended
    missing = get_gpu_unit.sync(name, client=client)
    assert isinstance(missing, ErrorResponse), missing
    assert missing.error.code == "gpuunit_not_found", missing


if __name__ == "__main__":
    main(*sys.argv[1:])
