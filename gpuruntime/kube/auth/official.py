"""Credentials from a `Configuration` of the official Python client, sync or asyncio, without importing it."""

import asyncio
import inspect
import ssl
from collections.abc import Mapping
from contextlib import suppress
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from gpuruntime.aio.singleflight import Singleflight
from gpuruntime.kube.auth.credentials import Credentials, CredentialsError, Endpoint
from gpuruntime.kube.auth.identity import Identity, basic, header_value
from gpuruntime.kube.auth.rotating_credentials import RotatingCredentials
from gpuruntime.kube.auth.tls import Pem, Trust

__all__ = ["from_official"]

# The name of the scheme, and the older name that `api_key` and `api_key_prefix` still accept.
_KEY_NAMES = ("BearerToken", "authorization")


def from_official(configuration: object, namespace: str = "default") -> Credentials:
    """Credentials that read a `kubernetes.client.Configuration` or a `kubernetes.aio.client.Configuration`.

    The address, the proxy and the CA are read now; the API key, the basic authentication and the client certificate
    before each request, after the refresh_api_key_hook. A hook that is not a coroutine function may block, so it is
    called in a thread.

    Raises:
        CredentialsError: an attribute is missing or invalid.
    """
    source = _Attributes(configuration)
    server = (source.text("host") or "").rstrip("/")
    if not server.startswith(("http://", "https://")):
        raise CredentialsError(f"configuration.host: expected an http:// or https:// address, found {server!r}")
    return RotatingCredentials(
        Endpoint(
            server=server,
            namespace=namespace,
            proxy=_proxy(source, server),
            tls_server_name=source.text("tls_server_name"),
        ),
        _OfficialIdentity(configuration),
        _trust(source),
    )


class _Attributes:
    """Typed access to the attributes of a configuration; absent, None and empty are the same."""

    def __init__(self, configuration: object) -> None:
        self._configuration = configuration

    def any(self, name: str) -> Any:
        return getattr(self._configuration, name, None)

    def text(self, name: str) -> str | None:
        value = self.any(name)
        if value is not None and not isinstance(value, str):
            raise CredentialsError(f"configuration.{name}: expected a string, found {type(value).__name__}")
        return value or None

    def texts(self, name: str) -> Mapping[str, str]:
        value = self.any(name)
        if value is not None and not isinstance(value, Mapping):
            raise CredentialsError(f"configuration.{name}: expected a mapping, found {type(value).__name__}")
        return value or {}

    def pem(self, name: str) -> Pem | None:
        path = self.text(name)
        return None if path is None else Pem(f"configuration.{name}", Path(path))


class _OfficialIdentity:
    """The identity in a configuration, after its refresh hook."""

    def __init__(self, configuration: object) -> None:
        self._configuration = configuration
        self._attributes = _Attributes(configuration)
        self._refresh = Singleflight(self._call_hook)

    async def current(self) -> Identity:
        if self._attributes.any("refresh_api_key_hook") is not None:
            await self._refresh.do()
        certificate, key = self._attributes.pem("cert_file"), self._attributes.pem("key_file")
        if certificate is not None and key is None:
            # One file may hold the certificate and the key.
            key = certificate
        return Identity(self._authorization(), certificate, key if certificate else None)

    def invalidate(self, used: Identity) -> None:
        """Does nothing: the hook is called before each use anyway."""

    def _authorization(self) -> str | None:
        key = _first(self._attributes.texts("api_key"))
        if key:
            prefix = _first(self._attributes.texts("api_key_prefix"))
            # The official client leaves the line break at the end of a key that it reads from a file.
            value = (f"{prefix} {key}" if prefix else key).strip()
            return header_value(value, "configuration.api_key")
        username, password = self._attributes.text("username"), self._attributes.text("password")
        return basic(username or "", password or "") if username or password else None

    async def _call_hook(self) -> None:
        hook = self._attributes.any("refresh_api_key_hook")
        try:
            if inspect.iscoroutinefunction(hook):
                await hook(self._configuration)
            else:
                result = await asyncio.to_thread(hook, self._configuration)
                if inspect.isawaitable(result):
                    await result
        except Exception as error:
            # The message of a hook's error may quote a token, so it stays in the cause.
            raise CredentialsError(f"configuration.refresh_api_key_hook raised {type(error).__name__}") from error


def _first(values: Mapping[str, str]) -> str | None:
    return next((values[name] for name in _KEY_NAMES if name in values), None)


def _trust(source: _Attributes) -> Trust:
    assert_hostname = source.any("assert_hostname")
    if isinstance(assert_hostname, str):
        raise CredentialsError("configuration.assert_hostname: expected true or false; set tls_server_name for a name")
    verify = source.any("verify_ssl")
    return Trust(
        ca=_inline_authority(source) or source.pem("ssl_ca_cert"),
        verify=verify is None or bool(verify),
        check_hostname=assert_hostname is None or bool(assert_hostname),
    )


def _inline_authority(source: _Attributes) -> Pem | None:
    data = source.any("ca_cert_data")
    if not data:
        return None
    text = ssl.DER_cert_to_PEM_cert(data) if isinstance(data, bytes) else data
    return Pem("configuration.ca_cert_data", text.encode())


def _proxy(source: _Attributes, server: str) -> str | None:
    proxy = source.text("proxy")
    # The sync configuration takes proxy and no_proxy from the environment.
    if proxy is None or _is_exception(server, source.text("no_proxy") or ""):
        return None
    if not proxy.startswith(("http://", "https://")):
        raise CredentialsError("configuration.proxy: expected the address of an http:// or https:// proxy")
    return proxy


def _is_exception(server: str, no_proxy: str) -> bool:
    """Whether the server is in no_proxy, a comma-separated list of hosts, domains and networks."""
    parts = urlsplit(server)
    names = {(parts.hostname or "").lower(), parts.netloc.lower()}
    for entry in (entry.strip().lower() for entry in no_proxy.split(",")):
        domain = entry.lstrip(".")
        if entry == "*" or (domain and any(name == domain or name.endswith(f".{domain}") for name in names)):
            return True
        with suppress(ValueError):
            if ip_address(parts.hostname or "") in ip_network(entry, strict=False):
                return True
    return False
