"""Checks of the parts of a controller, so that a mistake fails where it is made and not in the first run."""

import inspect
from collections.abc import Callable, Iterable
from types import CoroutineType
from typing import Any

from gpuruntime.control.informers.informer import Informer

__all__ = ["check_answer", "check_reads", "check_reconciler", "check_source", "check_takes_change", "check_work"]


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
    raise TypeError(f"expected a function that gives a coroutine, got {work!r}")


def check_takes_change(functions: Iterable[Callable[..., Any]], what: str) -> None:
    """Check triggers, mappers and predicates.

    Raises:
        TypeError: one cannot be called with one argument; most likely it returns what is wanted, and has to be called.
    """
    for function in functions:
        if not callable(function):
            raise TypeError(f"expected a {what}, which is called with a change, got {function!r}")
        if inspect.iscoroutinefunction(function):
            raise TypeError(
                f"expected a plain function as {what}, got {function.__qualname__}: make it without `async`"
            )
        try:
            signature = inspect.signature(function)
        except ValueError:
            continue  # some built-ins have no signature
        try:
            signature.bind(None)
        except TypeError:
            name = getattr(function, "__name__", repr(function))
            raise TypeError(
                f"expected a {what}, which is called with a change, got {name}{signature}: did you mean {name}()?"
            ) from None


def check_answer(answer: object, function: object) -> None:
    """Check that a function returned an awaitable.

    Raises:
        TypeError: it cannot.
    """
    if not inspect.isawaitable(answer):
        name = getattr(function, "__qualname__", repr(function))
        raise TypeError(f"{name} returned {answer!r} instead of an awaitable: make it `async def`")
