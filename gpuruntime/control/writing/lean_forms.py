"""Objects without their history: what caches hold, and what a write needs to give back."""

from typing import Any, TypeVar

from attrs import frozen

from gpuruntime.kube.forms import Form
from gpuruntime.meta.identity import ResourceKind

__all__ = ["without_history"]

T = TypeVar("T")


@frozen
class _Lean(Form[T]):
    form: Form[T]

    @property
    def kind(self) -> ResourceKind:
        return self.form.kind

    @property
    def accept(self) -> str:
        return self.form.accept

    @property
    def list_accept(self) -> str:
        return self.form.list_accept

    def decode(self, raw: dict[str, Any]) -> T:
        metadata = raw.get("metadata")
        if isinstance(metadata, dict):
            metadata.pop("managedFields", None)
        return self.form.decode(raw)


def without_history(form: Form[T]) -> Form[T]:
    """The form without managed_fields. They are half of an answer, and cost as much to decode as all the rest."""
    return _Lean(form)
