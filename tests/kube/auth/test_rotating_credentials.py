"""An authorization is one object until something the server sees has changed."""

import asyncio
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from gpuruntime.kube.auth.credentials import Credentials, Endpoint
from gpuruntime.kube.auth.exec_identity import ExecIdentity
from gpuruntime.kube.auth.exec_plugin import ExecPlugin
from gpuruntime.kube.auth.identity import ANONYMOUS, FixedIdentity, Identity, TokenFile
from gpuruntime.kube.auth.rotating_credentials import RotatingCredentials
from gpuruntime.kube.auth.tls import Pem, Trust

if TYPE_CHECKING:
    from tests.kube.conftest import Authority, Server

HTTPS = Endpoint("https://api")
BLIND = Trust(verify=False)


async def test_an_authorization_is_the_same_object_while_nothing_changes(
    tmp_path: Path, advance: Callable[[float], None]
) -> None:
    (tmp_path / "token").write_text("one")
    credentials = RotatingCredentials(HTTPS, TokenFile(tmp_path / "token"), BLIND)
    before = await credentials.authorize()

    advance(60)
    after = await credentials.authorize()

    assert after is before


async def test_a_new_token_keeps_the_context_so_that_connections_live_on(
    tmp_path: Path, advance: Callable[[float], None]
) -> None:
    (tmp_path / "token").write_text("one")
    credentials = RotatingCredentials(HTTPS, TokenFile(tmp_path / "token"), BLIND)
    before = await credentials.authorize()

    (tmp_path / "token").write_text("two")
    advance(60)
    after = await credentials.authorize()

    assert dict(after.headers) == {"Authorization": "Bearer two"}
    assert after.ssl is before.ssl is not None


async def test_a_new_client_certificate_is_shown_to_the_server(
    tmp_path: Path, authority: "Authority", server: "Server", advance: Callable[[float], None]
) -> None:
    pair = authority.issue("alice")
    (tmp_path / "pair.pem").write_bytes(pair.certificate + pair.key)
    pem = Pem("pair", tmp_path / "pair.pem")
    identity = FixedIdentity(Identity(certificate=pem, key=pem))
    credentials = RotatingCredentials(HTTPS, identity, Trust(ca=Pem("ca", authority.certificate)))
    seen = []

    async with server(authority, "api.example") as connect:
        for name in ("bob", "carol"):
            authorization = await credentials.authorize()
            assert authorization.ssl is not None
            seen.append(await connect(authorization.ssl))
            pair = authority.issue(name)
            (tmp_path / "pair.pem").write_bytes(pair.certificate + pair.key)
            advance(6)

    assert seen == ["alice", "bob"]


async def test_a_refusal_is_worth_another_try_if_the_token_was_replaced(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("one")
    credentials: Credentials = RotatingCredentials(HTTPS, TokenFile(tmp_path / "token"), BLIND)
    used = await credentials.authorize()

    in_vain = await credentials.refused(used)
    (tmp_path / "token").write_text("two")
    worth_it = await credentials.refused(used)
    late = await credentials.refused(used)

    assert (in_vain, worth_it, late) == (False, True, True)


async def test_a_refusal_is_worth_another_try_if_the_certificate_was_replaced(
    tmp_path: Path, authority: "Authority"
) -> None:
    pair = authority.issue("alice")
    (tmp_path / "pair.pem").write_bytes(pair.certificate + pair.key)
    pem = Pem("pair", tmp_path / "pair.pem")
    credentials = RotatingCredentials(HTTPS, FixedIdentity(Identity(certificate=pem, key=pem)), BLIND)
    used = await credentials.authorize()

    in_vain = await credentials.refused(used)
    pair = authority.issue("bob")
    (tmp_path / "pair.pem").write_bytes(pair.certificate + pair.key)
    worth_it = await credentials.refused(used)

    assert (in_vain, worth_it) == (False, True)


async def test_headers_repeat_and_plain_http_has_no_context() -> None:
    headers = [("Impersonate-User", "alice"), ("Impersonate-Group", "a"), ("Impersonate-Group", "b")]

    credentials = RotatingCredentials(Endpoint("http://api"), FixedIdentity(ANONYMOUS), Trust(), headers)
    authorization = await credentials.authorize()

    assert authorization.headers.getall("impersonate-group") == ["a", "b"]
    assert authorization.ssl is None


async def test_concurrent_refusals_run_a_plugin_once_and_are_all_worth_another_try(
    tmp_path: Path, advance: Callable[[float], None]
) -> None:
    version = "client.authentication.k8s.io/v1"
    script = tmp_path / "plugin"
    script.write_text(
        f"""#!/bin/sh
        echo run >> {tmp_path}/runs
        printf '{{"apiVersion": "{version}", "kind": "ExecCredential", "status": {{"token": "token-%d"}}}}' \\
            "$(wc -l < {tmp_path}/runs)"
        """
    )
    script.chmod(stat.S_IRWXU)
    plugin = ExecPlugin("exec", version, str(script), environ={"PATH": os.environ["PATH"]})
    credentials = RotatingCredentials(HTTPS, ExecIdentity(plugin), BLIND)
    used = await credentials.authorize()

    outcomes = await asyncio.gather(*(credentials.refused(used) for _ in range(20)))
    advance(2)
    late = await credentials.refused(used)
    after = await credentials.authorize()

    assert used.headers["Authorization"] == "Bearer token-1"
    assert after.headers["Authorization"] == "Bearer token-2"
    assert {*outcomes, late} == {True}
