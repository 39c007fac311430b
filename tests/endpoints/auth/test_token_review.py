"""Tokens of the cluster: when they are reviewed, and how long a verdict counts."""

import asyncio

import pytest

from gpuruntime.endpoints.auth.scopes import parse_grants
from gpuruntime.endpoints.auth.token_review import TokenReviews
from gpuruntime.endpoints.server.route import Caller, Scope
from gpuruntime.kube.auth.kubeconfig.contexts import from_kubeconfig
from gpuruntime.kube.client import connect
from gpuruntime.kube.errors import ForbiddenError, Status, UnavailableError
from gpuruntime.testing.cluster.access import ClusterAccess
from gpuruntime.testing.plugin import AccountFactory
from gpuruntime.testing.virtual_time import run_virtual
from tests.endpoints.token_review_scenes import ALICE, Reviewer, reviews


def test_a_token_is_reviewed_for_the_audience_once_in_ten_seconds() -> None:
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


def test_concurrent_requests_share_one_review() -> None:
    async def story() -> None:
        server = Reviewer()
        tokens = reviews(server)
        callers = await asyncio.gather(*(tokens.authenticate("alices") for _ in range(20)))

        assert set(callers) == {ALICE}
        assert len(server.asked) == 1

    run_virtual(story())


def test_an_expired_token_is_invalid_after_ten_seconds() -> None:
    async def story() -> None:
        server = Reviewer()
        tokens = reviews(server)
        before = await tokens.authenticate("alices")
        server.status = {"authenticated": False, "error": "token has expired"}
        await asyncio.sleep(10)

        assert (before, await tokens.authenticate("alices")) == (ALICE, None)

    run_virtual(story())


@pytest.mark.parametrize("audiences", [[], ["https://kubernetes.default.svc"]])
def test_a_token_for_another_audience_is_invalid(audiences: list[str]) -> None:
    async def story() -> None:
        server = Reviewer()
        server.status = {**server.status, "audiences": audiences}

        assert await reviews(server).authenticate("alices") is None

    run_virtual(story())


def test_while_the_api_server_is_away_a_valid_verdict_counts_for_two_minutes() -> None:
    async def story() -> None:
        server = Reviewer()
        tokens = reviews(server)
        await tokens.authenticate("alices")
        await tokens.authenticate("bobs")
        server.failure = UnavailableError("connection refused")
        await asyncio.sleep(60)

        assert await tokens.authenticate("alices") == ALICE
        for invalid in ("bobs", "carols"):
            with pytest.raises(UnavailableError):
                await tokens.authenticate(invalid)
        await asyncio.sleep(60)
        with pytest.raises(UnavailableError):
            await tokens.authenticate("alices")

    run_virtual(story())


def test_a_review_times_out_after_a_second() -> None:
    async def story() -> None:
        server = Reviewer()
        tokens = reviews(server)
        await tokens.authenticate("alices")
        server.seconds = 60
        await asyncio.sleep(10)
        began = asyncio.get_running_loop().time()

        valid = await tokens.authenticate("alices")
        with pytest.raises(UnavailableError, match=r"TokenReview .*1 s"):
            await tokens.authenticate("bobs")

        assert valid == ALICE
        assert asyncio.get_running_loop().time() - began == pytest.approx(2)

    run_virtual(story())


def test_a_forbidden_review_says_nothing_about_the_token() -> None:
    async def story() -> None:
        server = Reviewer(failure=ForbiddenError(Status(403, "Forbidden", "tokenreviews is forbidden")))

        with pytest.raises(UnavailableError, match="tokenreviews is forbidden"):
            await reviews(server).authenticate("alices")

    run_virtual(story())


@pytest.mark.parametrize("token", ["\udcff", "\xe9", "alices\udcff"])
def test_a_token_that_is_not_ascii_is_invalid_without_a_review(token: str) -> None:
    async def story() -> None:
        server = Reviewer()

        assert await reviews(server).authenticate(token) is None
        assert server.asked == []

    run_virtual(story())


def test_at_most_eight_unproven_tokens_are_reviewed_at_a_time() -> None:
    async def story() -> None:
        server = Reviewer()
        tokens = reviews(server)
        callers = await asyncio.gather(*(tokens.authenticate(f"guess-{number}") for number in range(64)))

        assert set(callers) == {None}
        assert (len(server.asked), server.most_under_way) == (64, 8)

    run_virtual(story())


def test_a_token_without_a_review_slot_in_time_counts_as_not_reviewed() -> None:
    async def story() -> None:
        server = Reviewer(seconds=0.9)
        tokens = reviews(server)
        guesses = (tokens.authenticate(f"guess-{number}") for number in range(20))
        results = await asyncio.gather(*guesses, return_exceptions=True)

        assert (results.count(None), sum(isinstance(one, UnavailableError) for one in results)) == (8, 12)
        assert asyncio.get_running_loop().time() == pytest.approx(1)

    run_virtual(story())


def test_valid_tokens_do_not_wait_for_unproven_ones() -> None:
    async def story() -> None:
        server = Reviewer(seconds=0.5)
        tokens = reviews(server)
        await tokens.authenticate("alices")
        await asyncio.sleep(10)
        guesses = [asyncio.create_task(tokens.authenticate(f"guess-{number}")) for number in range(100)]
        await asyncio.sleep(0)
        began = asyncio.get_running_loop().time()

        valid = await tokens.authenticate("alices")
        seconds = asyncio.get_running_loop().time() - began
        await asyncio.wait(guesses)

        assert (valid, server.asked.count(server.asked[0])) == (ALICE, 2)
        assert seconds == pytest.approx(0.5)
        assert {isinstance(guess.exception(), UnavailableError) for guess in guesses} == {True, False}

    run_virtual(story())


def test_unproven_tokens_do_not_evict_valid_ones_from_the_cache() -> None:
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


async def test_a_real_api_server_reviews_the_token_of_a_service_account_and_its_audience(
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
        valid = await tokens.authenticate(answer["status"]["token"])
        for_the_server = await tokens.authenticate(caller.token)
        forged = await tokens.authenticate(answer["status"]["token"][:-6] + "forged")

    assert valid == Caller(caller.username, Scope.OPERATOR)
    assert (for_the_server, forged) == (None, None)
