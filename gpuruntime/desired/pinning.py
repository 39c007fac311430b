"""An operator upgrade restarts no pod: a Deployment remembers its pod template as it was rendered, and keeps it.

The template goes on being the desired one, so that drift is repaired against it, until the user changes the spec or
asks for a new rendering with the annotation `render-on`.
"""

from functools import lru_cache
from hashlib import sha256
from typing import Final

import orjson
from attrs import evolve

from gpuruntime.api.names import RENDERED_DIGEST, RENDERED_FOR, RENDERED_TEMPLATE
from gpuruntime.kube.builtin.apps import Deployment
from gpuruntime.kube.builtin.pods import PodTemplateSpec
from gpuruntime.meta import DecodeError, decode_bytes, encode

__all__ = ["pinned"]

_HASH_LENGTH: Final = 32


def pinned(existing: Deployment | None, fresh: Deployment) -> Deployment:
    """The Deployment to write: the fresh one, with the pod template of the existing one if that still holds.

    It holds if it was rendered for the same inputs, and is remembered unspoilt.

    Guarantees: for the same inputs, whatever the operator renders today, the pod template and what is remembered of it
    are those of the first rendering, so nothing restarts; `pinned(written, fresh)` is what was written. Everything
    outside the pod template is always as rendered today: it can change without a restart.

    Caveats: the digest finds accidents, not forgery; who may write Deployments may write pods as well. If somebody
    removes or edits the annotations, the rendering of today applies.
    """
    inputs = fresh.metadata.annotations[RENDERED_FOR]
    template, text = _remembered(existing, inputs) or _rendered(fresh)
    annotations = fresh.metadata.annotations | {RENDERED_TEMPLATE: text, RENDERED_DIGEST: _digest(inputs, text)}
    return evolve(
        fresh,
        metadata=evolve(fresh.metadata, annotations=annotations),
        spec=evolve(fresh.spec, template=template),
    )


def _rendered(fresh: Deployment) -> tuple[PodTemplateSpec, str]:
    template = fresh.spec.template
    return template, orjson.dumps(encode(template), option=orjson.OPT_SORT_KEYS).decode()


def _remembered(existing: Deployment | None, inputs: str) -> tuple[PodTemplateSpec, str] | None:
    annotations = {} if existing is None else existing.metadata.annotations
    text = annotations.get(RENDERED_TEMPLATE, "")
    if annotations.get(RENDERED_FOR) != inputs or annotations.get(RENDERED_DIGEST) != _digest(inputs, text):
        return None
    try:
        return _template(text), text
    except DecodeError:
        return None


# The text that a unit's first run remembers is what its next ones read.
@lru_cache(maxsize=1024)
def _template(text: str) -> PodTemplateSpec:
    return decode_bytes(PodTemplateSpec, text.encode())


def _digest(inputs: str, template: str) -> str:
    return sha256(f"{inputs}\n{template}".encode()).hexdigest()[:_HASH_LENGTH]
