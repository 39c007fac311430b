import asyncio

import pytest
from attrs import define
from multidict import CIMultiDict, CIMultiDictProxy

from gpuruntime.kube.auth.credentials import Authorization, Credentials, CredentialsError, Endpoint
from gpuruntime.processes.wiring.credentials import LateCredentials
from gpuruntime.testing.virtual_time import run_virtual

AUTHORIZATION = Authorization(CIMultiDictProxy(CIMultiDict()), None)


class Known:
    """Credentials of a cluster."""

    endpoint = Endpoint("https://cluster")

    async def authorize(self) -> Authorization:
        return AUTHORIZATION

    async def refused(self, used: Authorization) -> bool:
        return used is AUTHORIZATION


@define
class Place:
    """Where credentials may appear later."""

    looks: int = 0
    there: bool = False

    def find(self) -> Credentials:
        self.looks += 1
        if not self.there:
            raise CredentialsError(f"nothing at look {self.looks}")
        return Known()


def test_requests_fail_with_the_reason_until_there_are_credentials() -> None:
    place = Place()

    async def story() -> None:
        late = LateCredentials(place.find)
        with pytest.raises(CredentialsError, match="nothing at look 1"):
            await late.authorize()
        before = late.endpoint.server
        place.there = True
        with pytest.raises(CredentialsError, match="nothing at look 1"):
            await late.authorize()
        await asyncio.sleep(1.0)
        assert await late.authorize() is AUTHORIZATION
        assert (before, late.endpoint.server) == ("https://no-cluster-yet.invalid", "https://cluster")
        assert await late.refused(AUTHORIZATION)

    run_virtual(story())

    assert place.looks == 2


def test_missing_credentials_are_an_error_with_the_reason() -> None:
    late = LateCredentials(Place().find)

    with pytest.raises(CredentialsError, match="nothing at look 1"):
        late.resolve()
