"""Bearer tokens of the cluster: the API server says whom one belongs to (TokenReview), grants say what that one may do.

A pod gets such a token as a projected volume, a person with `kubectl create token NAME --audience gpuruntime`.
"""

import asyncio
from hashlib import sha256
from typing import Final

from attrs import field, frozen

from gpuruntime.control.lru import LRU
from gpuruntime.kube import Client, KubeError, UnavailableError
from gpuruntime.kube.builtin.authentication import TokenReview, TokenReviewSpec, UserInfo
from gpuruntime.kube.singleflight import Singleflight
from gpuruntime.web.auth.scopes import Grants
from gpuruntime.web.server.route import Caller

__all__ = ["AUDIENCE", "TokenReviews"]

AUDIENCE: Final = "gpuruntime"
"""Whom a token must be made for. One for the API server is refused: who has it could act there in its owner's name."""

_FRESH_SECONDS: Final = 10.0
_USABLE_SECONDS: Final = 120.0
_REVIEW_SECONDS: Final = 1.0
_REMEMBERED: Final = 4096
_AT_A_TIME: Final = 8


@frozen
class _Verdict:
    user: UserInfo | None
    at: float


@frozen
class _Circle:
    """Those who are alike: what was said of them lately, and how many of them may be asked about at a time."""

    verdicts: LRU[str, _Verdict] = field(factory=lambda: LRU(_REMEMBERED))
    slots: asyncio.Semaphore = field(factory=lambda: asyncio.Semaphore(_AT_A_TIME))


class TokenReviews:
    """Tells callers by what the API server says of their tokens.

    Guarantees:
        A token counts only if it was made for the audience. A verdict is asked for again after ten seconds, so that is
        how long a token outlives its end; while the API server cannot be asked, a user that it knew counts for up to
        two minutes. It has a second to answer. Tokens are not kept, only their hashes. However many requests come with
        one token at a time, it is reviewed once.

        However many tokens are tried, at most eight that belong to nobody known are under review at a time, and whoever
        is known neither waits for them nor is forgotten for them. What is not reviewed for want of a place within the
        second counts as not answered.
    """

    def __init__(self, client: Client, grants: Grants, audience: str = AUDIENCE) -> None:
        self._client = client
        self._grants = grants
        self._audience = audience
        self._known = _Circle()
        self._strangers = _Circle()
        self._asking: dict[str, Singleflight[_Verdict]] = {}

    async def authenticate(self, token: str) -> Caller | None:
        """Whose token it is; None if nobody's.

        Raises:
            UnavailableError: the API server does not say, or does not let us ask; that is no word about the request.
        """
        if not token.isascii():
            return None
        key = sha256(token.encode()).hexdigest()
        known = self._known.verdicts.get(key) or self._strangers.verdicts.get(key)
        if known is None or _age(known) >= _FRESH_SECONDS:
            known = await self._ask_again(token, key, known)
        if known.user is None:
            return None
        return Caller(known.user.username, self._grants.scope_of(known.user))

    async def _ask_again(self, token: str, key: str, known: _Verdict | None) -> _Verdict:
        run = self._asking.setdefault(key, Singleflight(lambda: self._review(token, key)))
        try:
            return await run.join()
        except UnavailableError:
            if known is None or known.user is None or _age(known) >= _USABLE_SECONDS:
                raise
            return known
        finally:
            self._asking.pop(key, None)

    async def _review(self, token: str, key: str) -> _Verdict:
        asked = TokenReview(spec=TokenReviewSpec(token, (self._audience,)))
        circle = self._known if key in self._known.verdicts else self._strangers
        try:
            async with asyncio.timeout(_REVIEW_SECONDS), circle.slots:
                status = (await self._client.create(asked)).status
        except TimeoutError:
            raise UnavailableError(f"a caller's token was not reviewed within {_REVIEW_SECONDS:g} s") from None
        except KubeError as error:
            raise UnavailableError(f"a caller's token was not reviewed: {error}") from error
        # A server that knows nothing of audiences names none, and has then not looked at them.
        believed = status.authenticated and self._audience in status.audiences and status.user.username != ""
        verdict = _Verdict(status.user if believed else None, _now())
        theirs, other = (self._known, self._strangers) if believed else (self._strangers, self._known)
        other.verdicts.discard(key)
        theirs.verdicts.put(key, verdict)
        return verdict


def _age(verdict: _Verdict) -> float:
    return _now() - verdict.at


def _now() -> float:
    return asyncio.get_running_loop().time()
