"""An API server that reviews tokens."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Any

import orjson
from attrs import define, field
from multidict import CIMultiDict, CIMultiDictProxy

from gpuruntime.endpoints.auth.scopes import parse_grants
from gpuruntime.endpoints.auth.token_review import TokenReviews
from gpuruntime.endpoints.server.route import Caller, Scope
from gpuruntime.kube.client import Client
from gpuruntime.kube.errors import KubeError
from gpuruntime.kube.transport.request import Request
from gpuruntime.kube.transport.response import Response

__all__ = ["ALICE", "Reviewer", "reviews"]

GRANTS = parse_grants("user:alice=write")
ALICE = Caller("alice", Scope.WRITE)


@define
class Reviewer:
    """An API server that knows one token, and the transport to it."""

    asked: list[dict[str, Any]] = field(factory=list)
    failure: KubeError | None = None
    seconds: float = 0.1
    under_way: int = 0
    most_under_way: int = 0
    status: dict[str, Any] = field(
        factory=lambda: {"authenticated": True, "user": {"username": "alice"}, "audiences": ["gpuruntime"]}
    )

    async def send(self, request: Request) -> Response:
        assert str(request) == "POST /apis/authentication.k8s.io/v1/tokenreviews"
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        try:
            await asyncio.sleep(self.seconds)
        finally:
            self.under_way -= 1
        if self.failure is not None:
            raise self.failure
        asked = orjson.loads(request.body or b"")
        self.asked.append(asked["spec"])
        known = asked["spec"]["token"] == "alices"
        status = self.status if known else {"authenticated": False}
        return Response(200, CIMultiDictProxy(CIMultiDict()), orjson.dumps({**asked, "metadata": {}, "status": status}))

    def stream(self, request: Request, *, idle_timeout: float) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        raise NotImplementedError(request, idle_timeout)


def reviews(server: Reviewer) -> TokenReviews:
    return TokenReviews(Client(server, field_manager="test"), GRANTS)
