"""A real nats-server runs the rendered configuration, with passwords as a kubelet takes them from the Secrets."""

import asyncio
import os
import re
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from attrs import frozen

from gpuruntime.api.invocations import RESULTS_STREAM, inbox_prefix, result_subject
from gpuruntime.bus import Bus, BusCredentials, BusOptions, BusPermissionError, MessageTooLargeError
from gpuruntime.processes.generate.nats_users import CLUSTER_USERS
from gpuruntime.service.invocations.streams import HEADER_BYTES, ensure_shared_streams
from gpuruntime.testing import assets
from tests.archive.result_scenes import key_of
from tests.bus.connected import connected
from tests.manifests.rendered import MANIFESTS, rendered
from tests.ports import free_port
from tests.product_scenes import eventually

REFERENCE = re.compile(r"\$\((\w+)\)")
# What a server would take for a number, for a comment, for a variable and for a list.
PASSWORDS = {"runtime-api": "12e5", "activator": "a # b", "result-store": "$x [{y"}
ROOM = 8 * 2**20


@frozen
class Client:
    """A user of a server, with its password in files."""

    url: str
    directory: Path

    def options(self, user: str, password: str) -> BusOptions:
        files = self.directory / f"{user}.user", self.directory / f"{user}.password"
        for file, text in zip(files, (user, password), strict=True):
            file.write_text(text)
        return BusOptions((self.url,), user, BusCredentials(*files), None, inbox_prefix(user))


def environment(container: dict[str, Any]) -> dict[str, str]:
    """The variables of the container, with the values of the Secrets and of references to variables before them."""
    found: dict[str, str] = {}
    for variable in container["env"]:
        secret = variable.get("valueFrom", {}).get("secretKeyRef")
        if secret is not None:
            assert secret["key"] == "password"
            found[variable["name"]] = PASSWORDS[secret["name"].removeprefix("gpuruntime-nats-")]
        elif "valueFrom" in variable:
            found[variable["name"]] = "gpuruntime-nats-0"
        else:
            found[variable["name"]] = REFERENCE.sub(lambda match: found[match[1]], variable["value"])
    return found


def serves(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5):  # noqa: S310 - an http address
            return True
    except OSError:
        return False


@contextmanager
def running(directory: Path) -> Iterator[Client]:
    """The server of the rendered StatefulSet, as a process of this machine."""
    overlay = rendered(MANIFESTS / "nats")
    template = overlay.named("StatefulSet", "gpuruntime-nats")["spec"]["template"]
    (container,) = template["spec"]["containers"]
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    for name, text in overlay.mounted_config(template).items():
        # A flag does not override it.
        (directory / name).write_text(text.replace(f"store_dir: {mounts['data']}\n", f"store_dir: {directory}/data\n"))
    assert container["args"] == ["--config", f"{mounts['config']}/nats.conf"]
    port, monitor = free_port(), free_port()
    flags = ["--addr", "127.0.0.1", "--port", str(port), "--http_port", str(monitor)]
    command = [str(assets.ensure(of=assets.NATS) / "nats-server"), "--config", str(directory / "nats.conf"), *flags]
    with (
        (directory / "log").open("w") as log,
        subprocess.Popen(command, env={**os.environ, **environment(container)}, stderr=log) as server,
    ):
        try:
            for probe in ("startup", "readiness", "liveness"):
                while not serves(f"http://127.0.0.1:{monitor}{container[f'{probe}Probe']['httpGet']['path']}"):
                    assert server.poll() is None, (directory / "log").read_text()
                    time.sleep(0.05)  # a starting server has no event to await
            yield Client(f"nats://127.0.0.1:{port}", directory)
        finally:
            server.terminate()


async def refusal(options: BusOptions) -> str:
    """Why a connection is refused."""
    bus = Bus(options)
    before = bus.problem
    task = asyncio.create_task(bus.run())
    await eventually(lambda: bus.problem != before)
    task.cancel()
    await asyncio.wait([task])
    return bus.problem


async def test_each_process_has_its_user_and_nothing_else_has_one(tmp_path: Path) -> None:
    with running(tmp_path) as client:
        users = {}
        for user in CLUSTER_USERS:
            async with connected(client.options(user.name, PASSWORDS[user.name])) as bus:
                users[user.name] = bus.connected
        async with connected(client.options("activator", PASSWORDS["activator"])) as bus:
            await ensure_shared_streams(bus)
            account = await bus.jetstream.account_info()
        async with connected(client.options("result-store", PASSWORDS["result-store"])) as bus:
            read = await bus.jetstream.stream_info(RESULTS_STREAM)
            with pytest.raises(BusPermissionError):
                await bus.jetstream.publish(result_subject(key_of("forged")), b"")
        problem = await refusal(client.options("activator", "wrong"))
        with socket.create_connection(("127.0.0.1", int(client.url.rpartition(":")[2]))) as stranger:
            stranger.sendall(b'CONNECT {"verbose":false}\r\nPING\r\n')
            heard = stranger.makefile("rb").read()

    assert users == {"runtime-api": True, "activator": True, "result-store": True}
    assert read is not None
    assert account.max_storage == 8 * 2**30
    assert "Authorization Violation" in problem
    assert b"Authorization Violation" in heard


async def test_the_largest_result_and_its_headers_fit_and_nothing_larger(tmp_path: Path) -> None:
    with running(tmp_path) as client:
        async with connected(client.options("activator", PASSWORDS["activator"])) as bus:
            await ensure_shared_streams(bus)
            largest = bus.max_payload
            await bus.jetstream.publish(
                result_subject(key_of("large")), bytes(ROOM), {"Name": "x" * (HEADER_BYTES - 100)}
            )
            with pytest.raises(MessageTooLargeError):
                await bus.jetstream.publish(
                    result_subject(key_of("larger")), bytes(ROOM + HEADER_BYTES + 1), {"Name": "x"}
                )

    assert largest == ROOM + HEADER_BYTES + 1
