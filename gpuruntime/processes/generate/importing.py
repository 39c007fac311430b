"""Imports by name: the kinds of a package, and the object of `module:name`."""

import importlib
import pkgutil
import traceback
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from gpuruntime.meta import Definition, TypedObject

__all__ = ["ImportProblemError", "find_object", "kinds_of"]


class ImportProblemError(Exception):
    """A module or an object cannot be found or imported; the message says what to do."""


def kinds_of(name: str) -> tuple[type[TypedObject], ...]:
    """The kinds with a `DEFINITION` that a module defines, or a package and everything in it.

    All modules but `__main__` are imported. A kind counts in the module that defines it, not where it is imported.

    Raises:
        ImportProblemError: a module cannot be imported, or there is no such kind.
    """
    found = {
        value: None
        for module in _modules(name)
        for value in vars(module).values()
        if isinstance(value, type)
        and issubclass(value, TypedObject)
        and isinstance(value.__dict__.get("DEFINITION"), Definition)
        and value.__module__ == module.__name__
    }
    if not found:
        raise ImportProblemError(
            f"{name} has no kind with a DEFINITION: expected a subclass of TypedObject with"
            " `DEFINITION: ClassVar = Definition(...)`, in the module or in the package"
        )
    return tuple(sorted(found, key=lambda kind: (kind.KIND.group, kind.KIND.plural, kind.KIND.version)))


def find_object(target: str) -> Any:
    """The object of `module:name`; the name may have dots.

    Raises:
        ImportProblemError: the target is not of this form, or the module or the name does not exist.
    """
    module_name, colon, path = target.partition(":")
    if not colon or not module_name or not path:
        raise ImportProblemError(f"expected MODULE:FUNCTION, such as widgets.main:build, got {target!r}")
    found: Any = _load(module_name)
    for name in path.split("."):
        try:
            found = getattr(found, name)
        except AttributeError:
            raise ImportProblemError(f"{target}: expected {name!r} in {module_name}, found no such name") from None
    return found


def _modules(name: str) -> Iterator[ModuleType]:
    module = _load(name)
    yield module
    for inner in pkgutil.iter_modules(getattr(module, "__path__", ()), f"{name}."):
        if not inner.name.endswith(".__main__"):
            yield from _modules(inner.name)


def _load(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{name}.".startswith(f"{error.name}."):
            raise ImportProblemError(
                f"there is no module {error.name!r}: name one that is installed, or run the command where it is"
            ) from error
        raise ImportProblemError(f"cannot import {name}: {_where(error)}") from error
    except Exception as error:
        raise ImportProblemError(f"cannot import {name}: {_where(error)}") from error


def _where(error: Exception) -> str:
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({place.filename}, line {place.lineno})"
