"""Checks of the parts of a controller, so that a mistake fails where it is made and not in the first run."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from types import CoroutineType
from typing import Any

from gpuruntime.control.informers.informer import Informer

__all__ = [
    "check_awaitable",
    "check_limits",
    "check_reads",
    "check_reconciler",
    "check_run",
    "check_source",
    "check_takes_change",
    "check_work",
]


def check_reconciler(reconciler: object) -> None:
    """Check a reconciler.

    Raises:
        TypeError: a class in the place of an object, or something without `reconcile`; the message says what to do.
    """
    name = getattr(reconciler, "__qualname__", type(reconciler).__qualname__)
    if isinstance(reconciler, type):
        raise TypeError(f"expected a reconciler, got the class {name}: create an object of it, {name}(...)")
    if callable(getattr(reconciler, "reconcile", None)):
        return
    hint = "a function of an object goes into ObjectReconciler(store, function)" if callable(reconciler) else "add one"
    raise TypeError(f"expected a reconciler, got {name}, which has no method reconcile(key, context): {hint}")


def check_source(source: object) -> None:
    """Check a source.

    Raises:
        TypeError: an informer in the place of a watch, or anything else; the message says what to do.
    """
    if isinstance(source, Informer):
        raise TypeError("expected a source, got an informer: wrap it, Watch(informer, enqueue_object())")
    if isinstance(source, type) or not all(hasattr(source, name) for name in ("informers", "prepare", "run", "close")):
        raise TypeError(f"expected a source: Watch(informer, enqueue_object()), a Channel or a Timer, got {source!r}")


def check_reads(reads: Iterable[object], who: str) -> None:
    """Check informers to wait for.

    Raises:
        TypeError: one is none; the message says what to do.
    """
    for each in reads:
        if not isinstance(each, Informer):
            kind = type(each).__qualname__
            raise TypeError(f"{who}: expected informers in `reads`, got a {kind}: name the informer, not its store")


def check_limits(who: str, namespaces: object, labels: object, fields: object) -> None:
    """Check what limits the cache of a kind.

    Raises:
        TypeError: a text in the place of a list of namespaces, or a selector that is no text; the message says what to
            do.
    """
    if isinstance(namespaces, str):
        raise TypeError(f"{who}: expected a list of namespaces, got {namespaces!r}: namespaces=[{namespaces!r}]")
    for name, given in (("labels", labels), ("fields", fields)):
        if isinstance(given, Mapping):
            text = ",".join(f"{key}={value}" for key, value in given.items())
            raise TypeError(f"{who}: expected a selector in {name}=, got a {type(given).__qualname__}: {name}={text!r}")


def check_work(work: object) -> None:
    """Check a runnable.

    Raises:
        TypeError: no function; the message says what to do.
    """
    if callable(work):
        return
    if isinstance(work, CoroutineType):
        work.close()
        raise TypeError(
            f"expected a function, got a coroutine of {work.__name__}: pass {work.__name__} without calling it"
        )
    raise TypeError(f"expected a function that returns a coroutine, got {work!r}")


def check_takes_change(functions: Iterable[Callable[..., Any]], what: str) -> None:
    """Check triggers, mappers and predicates; a mapper is called with an object, the others with a change.

    Raises:
        TypeError: one is async or cannot be called with one argument; the message says what to do.
    """
    wanted = f"expected a {what}, which is called with {'an object' if what == 'mapper' else 'a change'}"
    for function in functions:
        if not callable(function):
            raise TypeError(f"{wanted}, got {function!r}")
        name = _name(function)
        if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError(f"expected a plain function as {what}, got {name}: make it without `async`")
        signature = _signature(function)
        if signature is None or _binds(signature, 1):
            continue
        if _binds(signature, 0) and name != "<lambda>":
            raise TypeError(f"{wanted}, got {name}: did you mean {name}()?")
        raise TypeError(f"{wanted}, got {name}({', '.join(signature.parameters)}): make it take one argument")


def check_run(function: object, what: str, arguments: tuple[str, str]) -> None:
    """Check a reconcile or cleanup function, which is called with two arguments.

    A plain function passes: it may return the coroutine of another one. `check_awaitable` looks at what it returns.

    Raises:
        TypeError: no function, a coroutine, an async generator, or other arguments; the message says what to do.
    """
    wanted = f"{what}: expected an async function of ({', '.join(arguments)})"
    if isinstance(function, CoroutineType):
        function.close()
        name = function.__name__
        raise TypeError(f"{wanted}, got a coroutine of {name}: pass {name} without calling it")
    name = _name(function)
    if isinstance(function, type) or not callable(function):
        raise TypeError(f"{wanted}, got {name}: pass the function, or the bound method of an object")
    if inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
        raise TypeError(f"{wanted}, got the generator {name}: use `return` in the place of `yield`")
    signature = _signature(function)
    if signature is not None and not _binds(signature, 2):
        given = ", ".join(signature.parameters)
        raise TypeError(f"{wanted}, got {name}({given}): make it take these two arguments")


def check_awaitable(returned: object, function: object) -> None:
    """Check that a function returned an awaitable.

    Raises:
        TypeError: it returned something else; the message says what to do.
    """
    # The coroutine of every run passes here, and `isawaitable` costs ten times as much.
    if type(returned) is not CoroutineType and not inspect.isawaitable(returned):
        name = getattr(function, "__qualname__", repr(function))
        raise TypeError(f"{name} returned {returned!r} instead of an awaitable: make it `async def`")


def _name(function: object) -> str:
    named = getattr(function, "__name__", None)
    return named or (repr(function) if callable(function) or function is None else type(function).__qualname__)


def _signature(function: Callable[..., Any]) -> inspect.Signature | None:
    try:
        return inspect.signature(function)
    except ValueError:
        return None  # some built-ins have no signature


def _binds(signature: inspect.Signature, count: int) -> bool:
    try:
        signature.bind(*range(count))
    except TypeError:
        return False
    return True
