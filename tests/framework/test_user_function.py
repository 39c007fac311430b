"""What may be served as a function."""

import functools
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from gpuruntime.framework.context import Context, Invocation
from gpuruntime.framework.user_function import FunctionError, UserFunction

CONTEXT = Context(Invocation("inv-1"))


def both(payload: Any, context: Context) -> Any:
    return payload, context.id


def alone(payload: Any) -> Any:
    return payload


async def asynchronous(payload: Any, context: Context) -> Any:
    return payload, context.id


class Model:
    def __call__(self, payload: Any) -> Any:
        return payload


class AsyncModel:
    async def __call__(self, payload: Any, context: Context) -> Any:
        return payload, context.id


def generator(payload: Any) -> Iterator[Any]:
    yield payload


async def async_generator(payload: Any) -> AsyncIterator[Any]:
    yield payload


@pytest.mark.parametrize(
    ("function", "returned"),
    [
        (both, (1, "inv-1")),
        (alone, 1),
        (Model(), 1),
        (functools.partial(both), (1, "inv-1")),
        (lambda payload: payload, 1),
    ],
)
def test_a_function_takes_a_payload_and_if_it_can_the_context(function: Any, returned: Any) -> None:
    checked = UserFunction.of(function)

    assert not checked.is_async
    assert checked(1, CONTEXT) == returned


@pytest.mark.parametrize("function", [asynchronous, AsyncModel(), functools.partial(asynchronous)])
async def test_an_async_function_is_recognised(function: Any) -> None:
    checked = UserFunction.of(function)

    assert checked.is_async
    assert await checked(1, CONTEXT) == (1, "inv-1")


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (7, "expected a function of"),
        (lambda: None, r"got .*lambda>\(\)"),
        (lambda _one, _two, _three: None, "expected a function of"),
        (generator, "streams are not supported yet"),
        (async_generator, "streams are not supported yet"),
    ],
)
def test_what_cannot_be_served_is_refused_before_it_is(function: Any, message: str) -> None:
    with pytest.raises(FunctionError, match=message):
        UserFunction.of(function)
