"""Typed forms of built-in kinds: the fields that controllers commonly read or write; the rest survives in `extra`.

One module per API group; the core group is spread over `core`, `nodes`, `pods`, `containers` and `volumes`. Import the
modules you need: attrs builds classes at import. Strings stay `str` where Kubernetes may add values later, so that a
newer server does not break a decode.
"""

__all__: list[str] = []
