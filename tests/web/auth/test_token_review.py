"""Tokens of the cluster: when the API server is asked, and what its word is worth."""

import asyncio

import pytest

from gpuruntime.kube.auth.kubeconfig.contexts import from_kubeconfig
from gpuruntime.kube.client import connect
from gpuruntime.kube.errors import ForbiddenError, Status, UnavailableError
from gpuruntime.testing.cluster.access import ClusterAccess
from gpuruntime.testing.plugin import AccountFactory
from gpuruntime.testing.virtual_time import run_virtual
from gpuruntime.web.auth.scopes import parse_grants
from gpuruntime.web.auth.token_review import TokenReviews
from gpuruntime.web.server.route import Caller, Scope
from tests.web.review_scenes import ALICE, Reviewer, reviews


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


@pytest.mark.parametrize("token", ["\udcff", "\xe9", "alices\udcff"])
def test_a_token_that_no_cluster_can_have_made_is_nobodys_and_not_asked_about(token: str) -> None:
    async def story() -> None:
        server = Reviewer()

        assert await reviews(server).authenticate(token) is None
        assert server.asked == []

    run_virtual(story())


def test_however_many_tokens_are_tried_few_are_under_review_at_a_time() -> None:
    async def story() -> None:
        server = Reviewer()
        tokens = reviews(server)
        callers = await asyncio.gather(*(tokens.authenticate(f"guess-{number}") for number in range(64)))

        assert set(callers) == {None}
        assert (len(server.asked), server.most_under_way) == (64, 8)

    run_virtual(story())


def test_a_token_that_gets_no_place_in_time_is_as_one_that_is_not_answered() -> None:
    async def story() -> None:
        server = Reviewer(seconds=0.9)
        tokens = reviews(server)
        guesses = (tokens.authenticate(f"guess-{number}") for number in range(20))
        told = await asyncio.gather(*guesses, return_exceptions=True)

        assert (told.count(None), sum(isinstance(one, UnavailableError) for one in told)) == (8, 12)
        assert asyncio.get_running_loop().time() == pytest.approx(1)

    run_virtual(story())


def test_who_is_known_waits_for_no_stranger() -> None:
    async def story() -> None:
        server = Reviewer(seconds=0.5)
        tokens = reviews(server)
        await tokens.authenticate("alices")
        await asyncio.sleep(10)
        strangers = [asyncio.create_task(tokens.authenticate(f"guess-{number}")) for number in range(100)]
        await asyncio.sleep(0)
        began = asyncio.get_running_loop().time()

        known = await tokens.authenticate("alices")
        seconds = asyncio.get_running_loop().time() - began
        await asyncio.wait(strangers)

        assert (known, server.asked.count(server.asked[0])) == (ALICE, 2)
        assert seconds == pytest.approx(0.5)
        assert {isinstance(stranger.exception(), UnavailableError) for stranger in strangers} == {True, False}

    run_virtual(story())


def test_who_is_known_is_not_forgotten_for_strangers() -> None:
    async def story() -> None:
        server = Reviewer(seconds=0.0001)
        tokens = reviews(server)
        await tokens.authenticate("alices")
        await asyncio.gather(*(tokens.authenticate(f"guess-{number}") for number in range(5000)))
        server.failure = UnavailableError("connection refused")
        await asyncio.sleep(60)

        assert len(server.asked) == 5001
        assert await tokens.authenticate("alices") == ALICE

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
