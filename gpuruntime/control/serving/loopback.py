"""Authorization of requests from this machine."""

from ipaddress import ip_address
from urllib.parse import urlsplit

from aiohttp import web

__all__ = ["loopback_only"]


async def loopback_only(request: web.Request) -> bool:
    """Authorizes requests over the loopback interface whose Host header is localhost or a loopback address.

    The Host check defends against DNS rebinding: a web page can point its own domain name to 127.0.0.1 and make a
    browser on this machine send requests.

    Caveats:
        Requests through a proxy on this machine are authorized, too.
    """
    try:
        host = urlsplit(f"//{request.headers.get('Host', '')}").hostname or ""
    except ValueError:
        return False
    # `remote` is the peer of the connection; headers cannot change it.
    return _is_loopback(request.remote or "") and (host == "localhost" or _is_loopback(host))


def _is_loopback(host: str) -> bool:
    try:
        address = ip_address(host)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback
