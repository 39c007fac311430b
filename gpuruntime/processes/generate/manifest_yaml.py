"""Manifests as YAML: in kubectl's format, deterministic, and parsed alike by all YAML parsers."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import yaml

__all__ = ["render"]

_WIDTH: Final = 120
_STRING: Final = "tag:yaml.org,2002:str"
# Texts that Go's parser reads as booleans or numbers and Python's does not, and all that begin like a number.
_AMBIGUOUS: Final = re.compile(r"[yYnN]|[-+.]*[0-9].*|[-+]?\.(inf|nan)", re.IGNORECASE)
# Line breaks for some parsers, and for PyYAML's emitter, which breaks lines there unless they are escaped.
_ODD_BREAKS: Final = re.compile("[\r\x85\u2028\u2029]")


class _Dumper(yaml.SafeDumper):
    """Without anchors, which are valid but hard to read."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - the answer is always the same
        return True


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    found = dumper.resolve(yaml.ScalarNode, value, (True, False))  # type: ignore[no-untyped-call]  # the stubs have none
    quoted = found != _STRING or not value or _AMBIGUOUS.fullmatch(value) or _ODD_BREAKS.search(value)
    style = '"' if quoted else None
    if "\n" in value and not style:
        # The emitter falls back to quotes where a block cannot hold the text.
        style = "|"
    return dumper.represent_scalar(_STRING, value, style=style)


_Dumper.add_representer(str, _text)


def render(objects: Iterable[Mapping[str, Any]], header: str) -> str:
    """One YAML document per object, keys sorted, under a comment.

    Guarantees: parsing returns equal objects, also with YAML 1.1 parsers that know more booleans and numbers than
    Python's; equal objects have equal texts.
    """
    documents = [
        yaml.dump(manifest, Dumper=_Dumper, sort_keys=True, default_flow_style=False, width=_WIDTH, allow_unicode=True)
        for manifest in objects
    ]
    comment = "".join(f"# {line}\n" for line in header.splitlines())
    return comment + "---\n".join(documents)
