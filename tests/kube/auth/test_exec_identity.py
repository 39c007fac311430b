"""A plugin runs as seldom as possible, and never leads to an anonymous request."""

import asyncio
import os
import stat
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gpuruntime.kube.auth.credentials import CredentialsError
from gpuruntime.kube.auth.exec_identity import ExecIdentity
from gpuruntime.kube.auth.exec_plugin import ExecPlugin

V1 = "client.authentication.k8s.io/v1"
NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


class World:
    """A plugin that counts its runs in a file and obeys another one, and a clock on the wall."""

    def __init__(self, directory: Path, advance: Callable[[float], None]) -> None:
        self.now = NOON
        self._advance = advance
        self._directory = directory
        script = directory / "plugin"
        script.write_text(f"#!/bin/sh\necho run >> {directory}/runs\n. {directory}/behaviour\n")
        script.chmod(stat.S_IRWXU)
        plugin = ExecPlugin("exec", V1, str(script), environ={"PATH": os.environ["PATH"]})
        self.identity = ExecIdentity(plugin, now=lambda: self.now)

    def behave(self, shell: str) -> None:
        (self._directory / "behaviour").write_text(shell)

    def issue(self, token: str, life: timedelta | None = None) -> None:
        expiry = "" if life is None else f', "expirationTimestamp": "{(self.now + life).isoformat()}"'
        status = f'{{"token": "{token}"{expiry}}}'
        self.behave(f"""echo '{{"apiVersion": "{V1}", "kind": "ExecCredential", "status": {status}}}'""")

    def wait(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)
        self._advance(seconds)

    @property
    def runs(self) -> int:
        file = self._directory / "runs"
        return len(file.read_text().splitlines()) if file.exists() else 0

    async def token(self) -> str:
        identity = await self.identity.current()
        assert identity.authorization is not None
        return identity.authorization.removeprefix("Bearer ")


@pytest.fixture
async def world(tmp_path: Path, advance: Callable[[float], None]) -> World:
    return World(tmp_path, advance)


async def test_a_token_without_an_end_is_used_for_ever(world: World) -> None:
    world.issue("one")
    await world.token()

    world.wait(10_000_000)

    assert await world.token() == "one"
    assert world.runs == 1


@pytest.mark.parametrize(
    ("life", "margin"), [(3600, 30), (301, 30), (200, 20), (10, 1)], ids=["hour", "5 min", "3 min", "10 s"]
)
async def test_a_token_is_renewed_a_little_before_it_ends(world: World, life: int, margin: int) -> None:
    world.issue("one", timedelta(seconds=life))
    await world.token()
    world.issue("two", timedelta(days=1))

    world.wait(life - margin - 0.5)
    early = await world.token()
    world.wait(0.5)
    late = await world.token()

    assert (early, late) == ("one", "two")
    assert world.runs == 2


async def test_a_token_that_has_ended_when_issued_runs_the_plugin_once_a_second_at_most(world: World) -> None:
    world.issue("old", timedelta(seconds=-60))

    for _ in range(5):
        assert await world.token() == "old"
    world.wait(1)
    for _ in range(5):
        assert await world.token() == "old"

    assert world.runs == 2


async def test_concurrent_requests_run_the_plugin_once(world: World) -> None:
    world.issue("one")

    tokens = await asyncio.gather(*(world.token() for _ in range(50)))

    assert set(tokens) == {"one"}
    assert world.runs == 1


async def test_a_cancelled_request_does_not_cancel_the_run_of_the_others(world: World, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "started")
    os.mkfifo(tmp_path / "go")
    world.issue("one")
    issue = (tmp_path / "behaviour").read_text()
    world.behave(f"echo > {tmp_path}/started; cat {tmp_path}/go; {issue}")

    async with asyncio.TaskGroup() as group:
        first, second = group.create_task(world.token()), group.create_task(world.token())
        await asyncio.to_thread((tmp_path / "started").read_text)
        first.cancel()
        await asyncio.wait((first,))
        await asyncio.to_thread((tmp_path / "go").write_text, "")

    assert first.cancelled()
    assert second.result() == "one"
    assert world.runs == 1


async def test_a_failing_plugin_is_an_error_that_is_held_for_a_second(world: World) -> None:
    world.behave("echo no >&2; exit 1")

    for _ in range(5):
        with pytest.raises(CredentialsError, match=r"code 1;.* no"):
            await world.token()
    held = world.runs
    world.issue("one")
    world.wait(1)

    assert held == 1
    assert await world.token() == "one"


async def test_a_failed_renewal_leaves_the_token_in_use_until_it_ends(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.issue("one", timedelta(hours=1))
    await world.token()
    world.behave("exit 1")

    world.wait(3600 - 20)
    meanwhile = [await world.token() for _ in range(3)]
    runs = world.runs
    world.wait(20)

    assert meanwhile == ["one"] * 3
    assert [record.message for record in caplog.records] == ["exec plugin failed, keeping the previous identity"]
    assert runs == 2
    with pytest.raises(CredentialsError, match="code 1"):
        await world.token()


async def test_concurrent_refusals_of_one_token_run_the_plugin_once(world: World) -> None:
    world.issue("one")
    refused = await world.identity.current()
    world.issue("two")

    async def refuse() -> str:
        world.identity.invalidate(refused)
        return await world.token()

    tokens = await asyncio.gather(*(refuse() for _ in range(20)))
    world.wait(2)
    late = await refuse()

    assert {*tokens, late} == {"two"}
    assert world.runs == 2


async def test_a_server_that_refuses_everything_runs_the_plugin_once_a_second_at_most(world: World) -> None:
    world.issue("one")

    for _ in range(10):
        world.identity.invalidate(await world.identity.current())
    within = world.runs
    await world.token()
    world.wait(1)
    world.identity.invalidate(await world.identity.current())
    await world.token()

    assert within <= 2
    assert world.runs == 3


async def test_a_refused_token_is_not_used_again_when_the_plugin_fails(world: World) -> None:
    world.issue("one", timedelta(hours=1))
    refused = await world.identity.current()
    world.behave("exit 1")

    world.identity.invalidate(refused)

    with pytest.raises(CredentialsError, match="code 1"):
        await world.token()
    with pytest.raises(CredentialsError, match="code 1"):
        await world.token()
