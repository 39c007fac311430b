"""Which callers have access, and the errors of the others."""

import pytest

from gpuruntime.control.serving.http_site import HttpAddress
from gpuruntime.endpoints.auth.access_control import Access, UnguardedAddressError, decide_access
from gpuruntime.endpoints.server.route import Scope
from tests.endpoints.endpoint_scenes import Widgets, bearer, serving_widgets

CREATE = {"operationID": "op-1", "name": "a"}


@pytest.mark.parametrize(
    ("host", "authenticated", "allowed", "access"),
    [
        ("127.0.0.1", False, False, Access.DEVELOPMENT),
        ("::1", False, False, Access.DEVELOPMENT),
        ("localhost", False, False, Access.DEVELOPMENT),
        ("127.0.0.1", True, False, Access.CREDENTIALS),
        ("0.0.0.0", True, False, Access.CREDENTIALS),
        ("0.0.0.0", True, True, Access.CREDENTIALS),
        ("10.0.0.1", False, True, Access.OPEN),
    ],
)
def test_the_access_mode_follows_from_address_and_configuration(
    host: str, authenticated: bool, allowed: bool, access: Access
) -> None:
    address = HttpAddress(host, 8080)

    assert decide_access(address, authenticated=authenticated, allow_unauthenticated=allowed) is access


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.0.1", "api.example", ""])
def test_an_address_that_other_machines_reach_needs_authentication(host: str) -> None:
    with pytest.raises(UnguardedAddressError, match=r"127\.0\.0\.1"):
        decide_access(HttpAddress(host, 80), authenticated=False, allow_unauthenticated=False)


@pytest.mark.parametrize(
    ("headers", "challenge"),
    [
        ({}, 'Bearer realm="gpuruntime"'),
        (bearer("guess"), 'Bearer realm="gpuruntime", error="invalid_token"'),
        ({"Authorization": "Basic YTpi"}, 'Bearer realm="gpuruntime", error="invalid_request"'),
        ({"Authorization": "Bearer "}, 'Bearer realm="gpuruntime", error="invalid_request"'),
    ],
)
async def test_a_request_without_valid_credentials_gets_a_challenge(headers: dict[str, str], challenge: str) -> None:
    async with serving_widgets(Widgets()) as client:
        response = await client.get("/api/v1/widgets", headers=headers)
        error = (await response.json())["error"]

    assert (response.status, error["code"]) == (401, "unauthorized")
    assert response.headers["WWW-Authenticate"] == challenge


@pytest.mark.parametrize("scope", [Scope.NONE, Scope.READ, Scope.WRITE, Scope.OPERATOR, Scope.ACCESS])
async def test_a_scope_includes_those_before_it(scope: Scope) -> None:
    headers = bearer(str(scope))

    async with serving_widgets(Widgets()) as client:
        read = await client.get("/api/v1/widgets", headers=headers)
        write = await client.post("/api/v1/widgets", json=CREATE, headers=headers)
        operate = await client.delete("/api/v1/widgets/a", headers=headers)

    rejected = [response.status == 403 for response in (read, write, operate)]
    assert rejected == [needed not in scope for needed in (Scope.READ, Scope.WRITE, Scope.OPERATOR)]


async def test_an_error_for_a_missing_scope_names_it() -> None:
    async with serving_widgets(Widgets()) as client:
        response = await client.post("/api/v1/widgets", json=CREATE, headers=bearer("read"))
        error = (await response.json())["error"]

    assert all(named in error["message"] for named in ("the-read", "scope write", "got read"))
    assert 'error="insufficient_scope", scope="write"' in response.headers["WWW-Authenticate"]


async def test_in_development_a_request_without_credentials_has_every_scope() -> None:
    widgets = Widgets()

    async with serving_widgets(widgets, Access.DEVELOPMENT) as client:
        response = await client.delete("/api/v1/widgets/a")

    assert response.status == 204
    assert (widgets.calls[0].caller.name, widgets.calls[0].caller.scope) == ("development", Scope.ALL)


async def test_in_development_credentials_count_if_present() -> None:
    async with serving_widgets(Widgets(), Access.DEVELOPMENT) as client:
        lesser = await client.delete("/api/v1/widgets/a", headers=bearer("read"))
        unknown = await client.delete("/api/v1/widgets/a", headers=bearer("guess"))

    assert (lesser.status, unknown.status) == (403, 401)


@pytest.mark.parametrize("access", [Access.DEVELOPMENT, Access.OPEN])
@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://[broken"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
async def test_a_page_of_another_web_site_gets_nothing_through_a_browser(
    access: Access, headers: dict[str, str]
) -> None:
    widgets = Widgets()

    async with serving_widgets(widgets, access) as client:
        response = await client.post("/api/v1/widgets", json=CREATE, headers=headers)

    assert (response.status, widgets.calls) == (403, [])


async def test_a_page_of_the_api_itself_has_access() -> None:
    async with serving_widgets(Widgets(), Access.DEVELOPMENT) as client:
        origin = f"http://{client.host}:{client.port}"
        response = await client.get("/api/v1/widgets", headers={"Origin": origin, "Sec-Fetch-Site": "same-origin"})

    assert response.status == 200


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "192.168.0.1:80", "[broken"])
async def test_in_development_dns_rebinding_does_not_work(host: str) -> None:
    async with serving_widgets(Widgets(), Access.DEVELOPMENT) as client:
        response = await client.get("/api/v1/widgets", headers={"Host": host})

    assert response.status == 403


@pytest.mark.parametrize("header", ["Forwarded", "X-Forwarded-For", "X-Forwarded-Host"])
async def test_in_development_requests_through_a_proxy_are_rejected(header: str) -> None:
    async with serving_widgets(Widgets(), Access.DEVELOPMENT) as client:
        response = await client.get("/api/v1/widgets", headers={header: "10.0.0.7"})

    assert response.status == 403


async def test_an_open_api_accepts_every_caller_and_logs_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    widgets = Widgets()

    async with serving_widgets(widgets, Access.OPEN) as client:
        response = await client.get("/api/v1/widgets", headers={"Host": "runtime.example"})

    assert (response.status, widgets.calls[0].caller.name) == (200, "anonymous")
    assert "authentication is off" in caplog.text
