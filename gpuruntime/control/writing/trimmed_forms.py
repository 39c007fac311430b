"""Forms that drop managedFields from responses; kubectl's last-applied annotation stays, to be written again."""

from typing import Any, TypeVar

from attrs import frozen

from gpuruntime.control.informers.storage import OfForm, drop_managed_fields
from gpuruntime.kube.forms import Form

__all__ = ["without_managed_fields"]

T = TypeVar("T")


@frozen
class _Trimmed(OfForm[T]):
    def decode(self, raw: dict[str, Any]) -> T:
        return self.form.decode(self.transform(raw))


def without_managed_fields(form: Form[T]) -> Form[T]:
    """The form with managedFields dropped."""
    return _Trimmed(form, drop_managed_fields)
