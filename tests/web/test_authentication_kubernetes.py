"""Tokens of the cluster: when the API server is asked, and what its word is worth."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Any

import orjson
import pytest
from attrs import define, field
from multidict import CIMultiDict, CIMultiDictProxy

from gpuruntime.kube.answers import Answer
from gpuruntime.kube.client import Client, connect
from gpuruntime.kube.errors import ForbiddenError, KubeError, Status, UnavailableError
from gpuruntime.kube.kubeconfig import from_kubeconfig
from gpuruntime.testing.access import ClusterAccess
from gpuruntime.testing.plugin import AccountFactory
from gpuruntime.testing.virtual_time import run_virtual
from gpuruntime.web.authentication_kubernetes import TokenReviews
from gpuruntime.web.identity import parse_grants
from gpuruntime.web.routing import Caller, Scope

GRANTS = parse_grants("user:alice=write")
ALICE = Caller("alice", Scope.WRITE)


@define
class Reviewer:
    """A wire to a server that knows one token, and the server at once."""

    asked: list[dict[str, Any]] = field(factory=list)
    failure: KubeError | None = None
    seconds: float = 0.1
    status: dict[str, Any] = field(
        factory=lambda: {"authenticated": True, "user": {"username": "alice"}, "audiences": ["gpuruntime"]}
    )

    async def request(self, method: str, path: str, *, body: bytes | None = None, **_: Any) -> Answer:
        assert (method, path) == ("POST", "/apis/authentication.k8s.io/v1/tokenreviews")
        await asyncio.sleep(self.seconds)
        if self.failure is not None:
            raise self.failure
        asked = orjson.loads(body or b"")
        self.asked.append(asked["spec"])
        known = asked["spec"]["token"] == "alices"
        status = self.status if known else {"authenticated": False}
        return Answer(200, CIMultiDictProxy(CIMultiDict()), orjson.dumps({**asked, "metadata": {}, "status": status}))

    def stream(self, path: str, **_: Any) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        raise NotImplementedError(path)


def reviews(server: Reviewer) -> TokenReviews:
    return TokenReviews(Client(server, field_manager="test"), GRANTS)


def test_a_token_is_reviewed_for_our_audience_once_in_ten_seconds() -> None:
    async def story() -> None:
        server = Reviewer()
        tokens = reviews(server)
        first = [await tokens.authenticate("alices") for _ in range(5)]
        asked = len(server.asked)
        await asyncio.sleep(10)
        again = await tokens.authenticate("alices")

        assert {*first, again} == {ALICE}
        assert (asked, len(server.asked)) == (1, 2)
        assert server.asked[0] == {"token": "alices", "audiences": ["gpuruntime"]}

    run_virtual(story())


def test_many_requests_at_once_make_one_review() -> None:
    async def story() -> None:
        server = Reviewer()
        tokens = reviews(server)
        callers = await asyncio.gather(*(tokens.authenticate("alices") for _ in range(20)))

        assert set(callers) == {ALICE}
        assert len(server.asked) == 1

    run_virtual(story())


def test_a_token_that_ended_is_unknown_after_ten_seconds() -> None:
    async def story() -> None:
        server = Reviewer()
        tokens = reviews(server)
        before = await tokens.authenticate("alices")
        server.status = {"authenticated": False, "error": "token has expired"}
        await asyncio.sleep(10)

        assert (before, await tokens.authenticate("alices")) == (ALICE, None)

    run_virtual(story())


@pytest.mark.parametrize("audiences", [[], ["https://kubernetes.default.svc"]])
def test_a_token_for_somebody_else_is_unknown_whatever_the_server_thinks_of_it(audiences: list[str]) -> None:
    async def story() -> None:
        server = Reviewer()
        server.status = {**server.status, "audiences": audiences}

        assert await reviews(server).authenticate("alices") is None

    run_virtual(story())


def test_while_the_server_is_away_those_it_knew_come_in_for_two_minutes() -> None:
    async def story() -> None:
        server = Reviewer()
        tokens = reviews(server)
        await tokens.authenticate("alices")
        await tokens.authenticate("bobs")
        server.failure = UnavailableError("connection refused")
        await asyncio.sleep(60)

        assert await tokens.authenticate("alices") == ALICE
        for unknown in ("bobs", "carols"):
            with pytest.raises(UnavailableError):
                await tokens.authenticate(unknown)
        await asyncio.sleep(60)
        with pytest.raises(UnavailableError):
            await tokens.authenticate("alices")

    run_virtual(story())


def test_a_server_that_hangs_holds_nobody_up_for_more_than_a_second() -> None:
    async def story() -> None:
        server = Reviewer()
        tokens = reviews(server)
        await tokens.authenticate("alices")
        server.seconds = 60
        await asyncio.sleep(10)
        began = asyncio.get_running_loop().time()

        known = await tokens.authenticate("alices")
        with pytest.raises(UnavailableError, match="not reviewed within 1 s"):
            await tokens.authenticate("bobs")

        assert known == ALICE
        assert asyncio.get_running_loop().time() - began == pytest.approx(2)

    run_virtual(story())


def test_a_server_that_does_not_let_us_ask_says_nothing_about_the_request() -> None:
    async def story() -> None:
        server = Reviewer(failure=ForbiddenError(Status(403, "Forbidden", "tokenreviews is forbidden")))

        with pytest.raises(UnavailableError, match="tokenreviews is forbidden"):
            await reviews(server).authenticate("alices")

    run_virtual(story())


async def test_a_real_server_knows_the_token_of_an_account_and_its_audience(
    kube_cluster: ClusterAccess, kube_account: AccountFactory
) -> None:
    reviewing = {"apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"], "verbs": ["create"]}
    ours, caller = kube_account(cluster_rules=[reviewing]), kube_account()
    path = f"/api/v1/namespaces/{caller.namespace}/serviceaccounts/{caller.name}/token"
    request = {"kind": "TokenRequest", "spec": {"audiences": ["gpuruntime"]}}
    answer = await asyncio.to_thread(kube_cluster.admin().create, path, request)
    grants = parse_grants(f"group:system:serviceaccounts:{caller.namespace}=operator")

    async with connect(from_kubeconfig(ours.kubeconfig), field_manager="test") as client:
        tokens = TokenReviews(client, grants)
        known = await tokens.authenticate(answer["status"]["token"])
        for_the_server = await tokens.authenticate(caller.token)
        forged = await tokens.authenticate(answer["status"]["token"][:-6] + "forged")

    assert known == Caller(caller.username, Scope.OPERATOR)
    assert (for_the_server, forged) == (None, None)
