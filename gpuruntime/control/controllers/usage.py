"""Mistakes in putting a controller together, told where they are made and not in the first run."""

import inspect
from collections.abc import Callable, Iterable
from types import CoroutineType
from typing import Any

from gpuruntime.control.informers.informer import Informer

__all__ = ["check_answer", "check_reads", "check_reconciler", "check_source", "check_takes_change", "check_work"]


def check_reconciler(reconciler: object) -> None:
    """Refuse what cannot be run.

    Raises:
        TypeError: a class in the place of an object, or something without `reconcile`; the message says what to do.
    """
    name = getattr(reconciler, "__qualname__", type(reconciler).__qualname__)
    if isinstance(reconciler, type):
        raise TypeError(f"expected a reconciler, got the class {name}: make an object of it, {name}(...)")
    if callable(getattr(reconciler, "reconcile", None)):
        return
    hint = "a function of an object goes into ObjectReconciler(store, function)" if callable(reconciler) else "add one"
    raise TypeError(f"expected a reconciler, got {name}, which has no method reconcile(key, context): {hint}")


def check_source(source: object) -> None:
    """Refuse what feeds no queue.

    Raises:
        TypeError: an informer in the place of a watch, or anything else; the message says what to do.
    """
    if isinstance(source, Informer):
        raise TypeError("expected a source, got an informer: say whom its changes concern, Watch(informer, itself())")
    if isinstance(source, type) or not all(hasattr(source, name) for name in ("informers", "prepare", "run", "close")):
        raise TypeError(f"expected a source such as Watch(informer, itself()), a Channel or a Timer, got {source!r}")


def check_reads(reads: Iterable[object], who: str) -> None:
    """Refuse to wait for what is no informer.

    Raises:
        TypeError: one is none; the message says what to do.
    """
    for each in reads:
        if not isinstance(each, Informer):
            kind = type(each).__qualname__
            raise TypeError(f"{who}: expected informers in `reads`, got a {kind}: name the informer, not its store")


def check_work(work: object) -> None:
    """Refuse work that cannot be begun.

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
    """Refuse functions that cannot be called with a change.

    Raises:
        TypeError: one cannot; most likely it makes what was wanted, and has to be called.
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
            continue  # what is built in does not always tell
        try:
            signature.bind(None)
        except TypeError:
            name = getattr(function, "__name__", repr(function))
            raise TypeError(
                f"expected a {what}, which is called with a change, got {name}{signature}: did you mean {name}()?"
            ) from None


def check_answer(answer: object, function: object) -> None:
    """Refuse what a function gave if it cannot be awaited.

    Raises:
        TypeError: it cannot.
    """
    if not inspect.isawaitable(answer):
        name = getattr(function, "__qualname__", repr(function))
        raise TypeError(f"{name} gave {answer!r} instead of something to await: make it `async def`")
