"""Typed forms of built-in kinds: the fields that controllers commonly read or write; others are kept in `extra`.

One module per API group; the core group is spread over `core`, `nodes`, `pods`, `containers` and `volumes`. Import the
modules you need: attrs builds classes at import. Enumerations that Kubernetes may extend are `str`, so
that objects of a newer server can be decoded.
"""

__all__: list[str] = []
