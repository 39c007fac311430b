"""One run of a plugin gives credentials or an error, and leaves nothing behind."""

import asyncio
import base64
import json
import os
import stat
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.kube.auth.credentials import CredentialsError
from gpuruntime.kube.auth.exec_plugin import ExecPlugin, parse_output, run
from gpuruntime.kube.auth.tls import Pem

if TYPE_CHECKING:
    from tests.kube.conftest import Authority

V1 = "client.authentication.k8s.io/v1"


def credential(**status: str) -> str:
    return json.dumps({"apiVersion": V1, "kind": "ExecCredential", "status": status})


def plugin(directory: Path, script: str, **changes: Any) -> ExecPlugin:
    path = directory / "plugin"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(stat.S_IRWXU)
    return ExecPlugin(
        place="users[0].user.exec", api_version=V1, command=str(path), environ={"PATH": os.environ["PATH"]}, **changes
    )


async def outcome_of(plugin: ExecPlugin) -> str:
    try:
        await run(plugin)
    except CredentialsError as error:
        return str(error)
    return "credentials"


async def test_a_token_and_its_end_are_taken_from_what_the_plugin_prints(tmp_path: Path) -> None:
    output = credential(token="one", expirationTimestamp="2030-01-02T03:04:05Z")

    issued = await run(plugin(tmp_path, f"echo '{output}'"))

    assert issued.identity.authorization == "Bearer one"
    assert issued.expires == datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC)


async def test_a_certificate_is_taken_from_what_the_plugin_prints(tmp_path: Path, authority: "Authority") -> None:
    pair = authority.issue("alice")
    output = credential(clientCertificateData=pair.certificate.decode(), clientKeyData=pair.key.decode())
    (tmp_path / "output").write_text(output)

    issued = await run(plugin(tmp_path, f"cat {tmp_path}/output"))

    assert issued.identity.authorization is None
    assert issued.identity.certificate is not None
    assert issued.identity.key is not None
    assert (issued.identity.certificate.read(), issued.identity.key.read()) == (pair.certificate, pair.key)


async def test_the_plugin_gets_arguments_environment_and_no_terminal(tmp_path: Path) -> None:
    script = f"""printf '%s|' "$@" "$FROM_PROCESS" "$FROM_CONFIG" "$OVERRIDDEN" "$(cat)" > {tmp_path}/seen
                 echo '{credential(token="one")}'"""
    configured = plugin(
        tmp_path, script, args=("get token", "-v"), env=(("FROM_CONFIG", "b"), ("OVERRIDDEN", "config"))
    )
    environ = {**configured.environ, "FROM_PROCESS": "a", "OVERRIDDEN": "process"}

    await run(evolve(configured, environ=environ))

    assert (tmp_path / "seen").read_text() == "get token|-v|a|b|config||"


@pytest.mark.parametrize("asks", [False, True])
async def test_the_plugin_gets_the_cluster_info_with_provide_cluster_info(tmp_path: Path, asks: bool) -> None:
    script = f"""printf '%s' "$KUBERNETES_EXEC_INFO" > {tmp_path}/seen; echo '{credential(token="one")}'"""
    (tmp_path / "ca.crt").write_bytes(b"the authority")
    cluster = {"server": "https://api", "config": {"audience": "us"}}
    seen = {"cluster": cluster, "cluster_ca": Pem("ca", tmp_path / "ca.crt")} if asks else {}

    await run(plugin(tmp_path, script, **seen))

    spec: dict[str, Any] = {"interactive": False}
    if asks:
        authority = base64.b64encode(b"the authority").decode()
        spec["cluster"] = {**cluster, "certificate-authority-data": authority}
    assert json.loads((tmp_path / "seen").read_text()) == {"apiVersion": V1, "kind": "ExecCredential", "spec": spec}


async def test_a_bare_name_is_looked_up_on_the_path(tmp_path: Path) -> None:
    found = plugin(tmp_path, f"echo '{credential(token='one')}'")

    issued = await run(evolve(found, command="plugin", environ={"PATH": f"{tmp_path}:{os.environ['PATH']}"}))

    assert issued.identity.authorization == "Bearer one"


async def test_a_failing_plugin_is_an_error_with_its_code_and_last_words(tmp_path: Path) -> None:
    failing = plugin(tmp_path, "echo 'please\n\033[1mlog in' >&2; exit 3")

    with pytest.raises(CredentialsError) as caught:
        await run(failing)

    assert str(caught.value).startswith(f"users[0].user.exec: plugin '{failing.command}' ")
    assert "code 3" in str(caught.value)
    assert str(caught.value).endswith("please ?[1mlog in")


async def test_a_missing_plugin_is_an_error_with_the_hint_how_to_install_it(tmp_path: Path) -> None:
    missing = evolve(plugin(tmp_path, ""), command="no-such-plugin", install_hint="brew install\nno-such-plugin")

    with pytest.raises(CredentialsError, match=r"'no-such-plugin' .*: brew install no-such-plugin$"):
        await run(missing)


async def test_a_file_that_is_no_program_is_an_error(tmp_path: Path) -> None:
    broken = plugin(tmp_path, "")
    (tmp_path / "plugin").write_bytes(b"\x7fELF no")

    with pytest.raises(CredentialsError, match="Exec format error"):
        await run(broken)


async def test_a_hanging_plugin_and_all_it_started_is_killed(tmp_path: Path, advance: Callable[[float], None]) -> None:
    os.mkfifo(tmp_path / "started")
    os.mkfifo(tmp_path / "alive")
    hanging = plugin(
        tmp_path,
        f"""exec 3> {tmp_path}/alive; echo waiting for a browser >&2
            (sleep 30; echo survived >&3) & echo > {tmp_path}/started; wait""",
    )

    async with asyncio.TaskGroup() as group:
        # Ends when nobody is left who could write to it.
        death = group.create_task(asyncio.to_thread((tmp_path / "alive").read_text))
        outcome = group.create_task(outcome_of(hanging))
        await asyncio.to_thread((tmp_path / "started").read_text)
        advance(61)

    assert outcome.result().endswith("did not finish in 60 s; it said: waiting for a browser")
    assert death.result() == ""


async def test_a_cancelled_run_kills_the_plugin(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "started")
    os.mkfifo(tmp_path / "alive")
    hanging = plugin(
        tmp_path, f"exec 3> {tmp_path}/alive; (sleep 30; echo survived >&3) & echo > {tmp_path}/started; wait"
    )

    async with asyncio.TaskGroup() as group:
        death = group.create_task(asyncio.to_thread((tmp_path / "alive").read_text))
        task = group.create_task(run(hanging))
        await asyncio.to_thread((tmp_path / "started").read_text)
        task.cancel()

    assert task.cancelled()
    assert death.result() == ""


async def test_a_daemon_that_keeps_stderr_open_delays_nothing(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "end")
    script = f"""(cat {tmp_path}/end >/dev/null) >/dev/null & echo '{credential(token="one")}'"""

    issued = await run(plugin(tmp_path, script))
    await asyncio.to_thread((tmp_path / "end").write_text, "")

    assert issued.identity.authorization == "Bearer one"


async def test_a_daemon_in_a_session_of_its_own_does_not_outwait_the_timeout(
    tmp_path: Path, advance: Callable[[float], None]
) -> None:
    os.mkfifo(tmp_path / "started")
    os.mkfifo(tmp_path / "end")
    leaving = plugin(tmp_path, f"setsid sh -c 'echo > {tmp_path}/started; cat {tmp_path}/end' & exit 0")

    async with asyncio.TaskGroup() as group:
        outcome = group.create_task(outcome_of(leaving))
        await asyncio.to_thread((tmp_path / "started").read_text)
        advance(61)
    await asyncio.to_thread((tmp_path / "end").write_text, "")

    assert outcome.result().endswith("did not finish in 60 s")


async def test_a_plugin_may_chat_on_the_error_output(tmp_path: Path) -> None:
    chatty = f"head -c 1048576 /dev/zero | tr '\\0' x >&2; echo '{credential(token='one')}'"

    issued = await run(plugin(tmp_path, chatty))

    assert issued.identity.authorization == "Bearer one"


async def test_endless_output_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CredentialsError, match="1048576 bytes"):
        await run(plugin(tmp_path, "head -c 3000000 /dev/zero"))


@pytest.mark.parametrize(
    ("output", "problem"),
    [
        ("", "JSON"),
        ("token: hush", "JSON"),
        ("[]", "ExecCredential"),
        ('{"kind": "Pod", "apiVersion": "v1"}', "ExecCredential"),
        (credential(token="hush").replace("/v1", "/v1beta1"), "v1beta1', expected 'client.authentication.k8s.io/v1'"),
        (json.dumps({"apiVersion": V1, "kind": "ExecCredential"}), "status"),
        (credential(), "neither a token nor a certificate"),
        (credential(token=""), "neither a token nor a certificate"),
        (credential(token="hush\nhush"), "status.token: "),
        (credential(clientKeyData="hush"), "clientCertificateData and clientKeyData"),
        (credential(clientCertificateData="x", clientKeyData="hush"), "PEM"),
        (credential(token="hush", expirationTimestamp="tomorrow"), "RFC 3339"),
        (credential(token="hush", expirationTimestamp="2030-01-02T03:04:05"), "time zone"),
        (json.dumps({"apiVersion": V1, "kind": "ExecCredential", "status": {"token": 1}}), "int"),
    ],
)
def test_other_output_is_an_error_that_does_not_quote_it(output: str, problem: str) -> None:
    with pytest.raises(CredentialsError) as caught:
        parse_output(output.encode(), V1, "plugin")

    assert problem in str(caught.value)
    assert "hush" not in str(caught.value)


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5), lambda inner: st.lists(inner, max_size=2)
)


@given(
    st.binary(max_size=50)
    | st.fixed_dictionaries(
        {},
        optional={
            "apiVersion": st.just(V1) | anything,
            "kind": st.just("ExecCredential") | anything,
            "status": anything
            | st.dictionaries(
                st.sampled_from(["token", "clientKeyData", "clientCertificateData", "expirationTimestamp"]), anything
            ),
        },
    ).map(lambda document: json.dumps(document).encode())
)
def test_whatever_a_plugin_prints_is_credentials_or_a_credentials_error(output: bytes) -> None:
    try:
        issued = parse_output(output, V1, "plugin")
    except CredentialsError:
        return

    assert issued.identity.authorization is not None
