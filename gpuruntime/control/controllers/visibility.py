"""Whether an informer covers a write, and whether its store shows it.

An informer with selectors receives an object only while it is selected. So one whose store lacks the object is waited
for only if it will receive a state that was written; one whose store has it receives every later state, at least the
deletion.
"""

from collections.abc import Iterable
from typing import Any

from gpuruntime.control.controllers.journal import Labels, Written
from gpuruntime.control.informers.consistent_read import not_older
from gpuruntime.control.informers.informer import InformerScope
from gpuruntime.control.informers.store import Store
from gpuruntime.meta.field_selectors import FieldTerm
from gpuruntime.meta.identity import ObjectKey

__all__ = ["covers", "is_selected", "is_shown"]


def covers(scope: InformerScope[Any], written: Written) -> bool:
    """Whether an informer watches the collection that was written to."""
    if scope.namespaces and written.namespace not in scope.namespaces:
        return False
    kind = scope.storage.kind
    # Every write is compared with every informer, and most have nothing to do with each other.
    if not written.collection.endswith(kind.plural):
        return False
    return kind.path(written.namespace if kind.namespaced else None) == written.collection


def is_shown(store: Store[Any], scope: InformerScope[Any], written: Written) -> bool:
    """Whether a store shows a write or something newer; never true if the outcome of the write is unknown."""
    key = written.key
    if key is None:
        return False
    known = store.version_of(key)
    if known is None:
        # An absent object may be about to appear: the store may not have received it yet.
        awaited = [version for version, labels in written.states if is_selected(scope, key, labels)]
        return all(not version or not_older(store.version_in(key.namespace), version) for version in awaited)
    if written.fate == "gone":
        is_another = bool(written.uid) and known[0] != written.uid
        return is_another and (not written.version or not_older(known[1], written.version))
    return not_older(known[1], written.version)


def is_selected(scope: InformerScope[Any], key: ObjectKey, labels: Labels | None) -> bool | None:
    """Whether an informer's selectors select an object with these labels; None if that is unknown.

    Of the fields only the name and the namespace are known: the server computes the others.
    """
    verdicts = [_chooses(term, key) for term in scope.fields.terms]
    if scope.labels.requirements:
        verdicts.append(None if labels is None else scope.labels.matches(labels))
    return _all_of(verdicts)


def _chooses(term: FieldTerm, key: ObjectKey) -> bool | None:
    fields = {"metadata.name": key.name, "metadata.namespace": key.namespace}
    return term.matches(fields) if term.path in fields else None


def _all_of(verdicts: Iterable[bool | None]) -> bool | None:
    found = set(verdicts)
    return False if False in found else None if None in found else True
