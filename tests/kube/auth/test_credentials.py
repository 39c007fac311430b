"""What may be printed holds no secret."""

import ssl

from multidict import CIMultiDict, CIMultiDictProxy

from gpuruntime.kube.auth.credentials import Authorization, Endpoint
from gpuruntime.kube.auth.exec_plugin import ExecPlugin
from gpuruntime.kube.auth.identity import Identity
from gpuruntime.kube.auth.tls import Pem


def test_the_repr_of_credentials_has_no_secrets() -> None:
    values = [
        Endpoint("https://api", proxy="http://me:hush@proxy"),
        Authorization(CIMultiDictProxy(CIMultiDict(Authorization="Bearer hush")), None),
        Identity("Bearer hush", Pem("certificate", b"hush"), Pem("key", b"hush")),
        ExecPlugin("here", "v1", "plugin", env=(("SECRET", "hush"),), environ={"SECRET": "hush"}),
    ]

    texts = [repr(value) for value in values]

    assert [text for text in texts if "hush" in text] == []


def test_authorizations_are_compared_by_identity() -> None:
    headers = CIMultiDictProxy(CIMultiDict(Authorization="Bearer one"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)

    first, second = Authorization(headers, context), Authorization(headers, context)

    assert first != second
    assert len({first, second}) == 2
