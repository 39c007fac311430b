"""Authentication by tokens of the cluster: TokenReview says whose token it is, grants say which scope the user has.

A pod gets such a token from a projected volume, a person with `kubectl create token NAME --audience gpuruntime`.
"""

import asyncio
from hashlib import sha256
from typing import Final

from attrs import field, frozen

from gpuruntime.aio import LRU, Singleflight
from gpuruntime.endpoints.auth.scopes import Grants
from gpuruntime.endpoints.server.route import Caller
from gpuruntime.kube import Client, KubeError, UnavailableError
from gpuruntime.kube.builtin.authentication import TokenReview, TokenReviewSpec, UserInfo

__all__ = ["AUDIENCE", "ReviewedUsers", "TokenReviews"]

AUDIENCE: Final = "gpuruntime"
"""The audience that a token needs. A token for the API server is rejected: we could impersonate its owner there."""

_FRESH_SECONDS: Final = 10.0
_USABLE_SECONDS: Final = 120.0
_REVIEW_SECONDS: Final = 1.0
_CACHED: Final = 4096
_CONCURRENT: Final = 8


@frozen
class _Verdict:
    user: UserInfo | None
    at: float


@frozen
class _TokenClass:
    """Valid tokens or all others: cached verdicts, and a limit of concurrent reviews."""

    verdicts: LRU[str, _Verdict] = field(factory=lambda: LRU(_CACHED))
    slots: asyncio.Semaphore = field(factory=lambda: asyncio.Semaphore(_CONCURRENT))


class ReviewedUsers:
    """The users of tokens, by TokenReview.

    Guarantees:
        A token is valid only for the audience. Verdicts are cached for ten seconds, so a revoked token works for up to
        ten seconds longer. While the API server is unavailable, a valid verdict counts for up to two minutes. A review
        takes at most a second. Only hashes of tokens are kept. Concurrent requests with one token share one review.

        Tokens that are not known to be valid have their own cache, and at most eight of them are reviewed at a time:
        callers with valid tokens neither wait for them nor lose their cached verdicts to them. A token that gets no
        review within the second counts as not reviewed.
    """

    def __init__(self, client: Client, audience: str) -> None:
        self._client = client
        self._audience = audience
        self._valid = _TokenClass()
        self._unproven = _TokenClass()
        self._running: dict[str, Singleflight[_Verdict]] = {}

    async def user_of(self, token: str) -> UserInfo | None:
        """The user that a token belongs to; None if the token is invalid.

        Raises:
            UnavailableError: the API server did not review the token, or does not permit reviews. That says nothing
                about the token.
        """
        if not token.isascii():
            return None
        key = sha256(token.encode()).hexdigest()
        known = self._valid.verdicts.get(key) or self._unproven.verdicts.get(key)
        if known is None or _age(known) >= _FRESH_SECONDS:
            known = await self._refreshed(token, key, known)
        return known.user

    async def _refreshed(self, token: str, key: str, known: _Verdict | None) -> _Verdict:
        run = self._running.setdefault(key, Singleflight(lambda: self._review(token, key)))
        try:
            return await run.do()
        except UnavailableError:
            if known is None or known.user is None or _age(known) >= _USABLE_SECONDS:
                raise
            return known
        finally:
            self._running.pop(key, None)

    async def _review(self, token: str, key: str) -> _Verdict:
        review = TokenReview(spec=TokenReviewSpec(token, (self._audience,)))
        current = self._valid if key in self._valid.verdicts else self._unproven
        try:
            async with asyncio.timeout(_REVIEW_SECONDS), current.slots:
                status = (await self._client.create(review)).status
        except TimeoutError:
            raise UnavailableError(f"no TokenReview of a caller's token within {_REVIEW_SECONDS:g} s") from None
        except KubeError as error:
            raise UnavailableError(f"TokenReview of a caller's token failed: {error}") from error
        # A server that does not support audiences returns none, and has not checked them.
        is_valid = status.authenticated and self._audience in status.audiences and status.user.username != ""
        verdict = _Verdict(status.user if is_valid else None, _now())
        new, other = (self._valid, self._unproven) if is_valid else (self._unproven, self._valid)
        other.verdicts.discard(key)
        new.verdicts.put(key, verdict)
        return verdict


class TokenReviews:
    """Authenticates callers by TokenReview, with the guarantees of `ReviewedUsers`."""

    def __init__(self, client: Client, grants: Grants, audience: str = AUDIENCE) -> None:
        self._users = ReviewedUsers(client, audience)
        self._grants = grants

    async def authenticate(self, token: str) -> Caller | None:
        """The caller that a token belongs to; None if the token is invalid.

        Raises:
            UnavailableError: as `ReviewedUsers.user_of`.
        """
        user = await self._users.user_of(token)
        return None if user is None else Caller(user.username, self._grants.scope_of(user))


def _age(verdict: _Verdict) -> float:
    return _now() - verdict.at


def _now() -> float:
    return asyncio.get_running_loop().time()
