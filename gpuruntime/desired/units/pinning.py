"""Pinning of pod templates, so that an operator upgrade restarts no pod.

A Deployment stores its pod template as it was rendered. That template stays the desired state, against which drift is
corrected, until the user changes the spec or requests a new rendering with the annotation `render-on`.
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
    """The Deployment to write: the fresh one, with the stored pod template of the existing one if that is valid.

    It is valid if it was rendered for the same inputs and its digest matches.

    Guarantees: for the same inputs, the pod template and its annotations are those of the first rendering, whatever
    this version renders, so nothing restarts; `pinned(written, fresh)` equals `written`. Everything outside the pod
    template is always as this version renders it, because it can change without a restart.

    Caveats: the digest detects accidents, not forgery; a user who can write Deployments can create pods anyway. If the
    annotations are removed or edited, the rendering of this version applies.
    """
    inputs = fresh.metadata.annotations[RENDERED_FOR]
    template, text = _stored(existing, inputs) or _rendered(fresh)
    annotations = fresh.metadata.annotations | {RENDERED_TEMPLATE: text, RENDERED_DIGEST: _digest(inputs, text)}
    return evolve(
        fresh,
        metadata=evolve(fresh.metadata, annotations=annotations),
        spec=evolve(fresh.spec, template=template),
    )


def _rendered(fresh: Deployment) -> tuple[PodTemplateSpec, str]:
    template = fresh.spec.template
    return template, orjson.dumps(encode(template), option=orjson.OPT_SORT_KEYS).decode()


def _stored(existing: Deployment | None, inputs: str) -> tuple[PodTemplateSpec, str] | None:
    annotations = {} if existing is None else existing.metadata.annotations
    text = annotations.get(RENDERED_TEMPLATE, "")
    if annotations.get(RENDERED_FOR) != inputs or annotations.get(RENDERED_DIGEST) != _digest(inputs, text):
        return None
    try:
        return _template(text), text
    except DecodeError:
        return None


# Every reconcile of a unit reads the same text.
@lru_cache(maxsize=1024)
def _template(text: str) -> PodTemplateSpec:
    return decode_bytes(PodTemplateSpec, text.encode())


def _digest(inputs: str, template: str) -> str:
    return sha256(f"{inputs}\n{template}".encode()).hexdigest()[:_HASH_LENGTH]
