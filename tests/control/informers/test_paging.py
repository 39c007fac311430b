"""Lists in pages: what is cut out of them is what the parser finds in them, and one page is always ahead."""

import asyncio
import gc
import json
from collections.abc import Callable
from typing import Any

import pytest
from attrs import define, field
from hypothesis import example, given
from hypothesis import strategies as st
from multidict import CIMultiDict, CIMultiDictProxy

from gpuruntime.control.informers.paging import PagesAhead, PageSize, read_page
from gpuruntime.kube.errors import KubeError, UnavailableError, UnexpectedResponseError
from gpuruntime.kube.transport.response import Response
from gpuruntime.testing.virtual_time import run_virtual

BORDERS = ['},{"metadata":{', '"items":[', "]", "},{", '"metadata":{', '"}]},', "\\"]
TEXTS = st.one_of(st.sampled_from(BORDERS), st.text(max_size=5))
NAMES = st.one_of(st.sampled_from(["metadata", "items", "kind", "apiVersion"]), TEXTS)
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**53), 2**53), TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(NAMES, inner, max_size=4)),
    max_leaves=12,
)
BODIES = st.dictionaries(NAMES, JSON, max_size=4)
METADATA_FIRST = st.builds(lambda metadata, rest: {"metadata": metadata, **rest}, BODIES, BODIES)
NESTING = st.builds(lambda inner: {"metadata": {}, "parts": inner}, st.lists(METADATA_FIRST, max_size=3))
ITEMS = st.lists(st.one_of(METADATA_FIRST, NESTING, BODIES, JSON), max_size=6)


def answer(body: bytes) -> Response:
    return Response(200, CIMultiDictProxy(CIMultiDict()), body, "GET /pods")


def written(value: Any, *, pretty: bool = False) -> bytes:
    separators = None if pretty else (",", ":")
    return json.dumps(value, ensure_ascii=False, separators=separators, indent=2 if pretty else None).encode()


def go_order(items: Any, **metadata: Any) -> dict[str, Any]:
    """As built-in kinds are listed."""
    return {"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "5", **metadata}, "items": items}


def custom_order(items: Any, **metadata: Any) -> dict[str, Any]:
    """As custom resources are listed: by name, the metadata behind the items."""
    return {"apiVersion": "v1", "items": items, "kind": "PodList", "metadata": {**metadata, "resourceVersion": "5"}}


def as_watched(items: list[Any]) -> list[dict[str, Any]]:
    """The objects among them, each with what a watch would say of its kind."""
    identity = {"apiVersion": "v1", "kind": "Pod"}
    return [item if "kind" in item else {**identity, **item} for item in items if isinstance(item, dict)]


@given(items=ITEMS, order=st.sampled_from([go_order, custom_order]), pretty=st.booleans(), within=JSON, behind=JSON)
@example([{"metadata": {}}, {"metadata": {}}], go_order, False, 0, 0)
@example([{"metadata": {}}, {"metadata": {}}, {}], go_order, False, 0, 0)
@example([{"metadata": {"a": '},{"metadata":{'}}, {"metadata": {}}], go_order, False, 0, 0)
@example([{"metadata": {}, "parts": [{"metadata": {}}, {"metadata": {}}]}, {"metadata": {}}], custom_order, False, 0, 0)
@example([{"metadata": {}}], custom_order, False, {"items": [{"metadata": {}}]}, 0)
@example([{"metadata": {}}], go_order, False, {"items": [{"metadata": {}}]}, 0)
@example([{"metadata": {}}], custom_order, False, 0, [1])
def test_whatever_the_items_are_the_same_are_found_as_by_the_parser(
    items: list[Any], order: Callable[..., Any], pretty: bool, within: Any, behind: Any
) -> None:
    body = written({**order(items, odd=within), "more": behind}, pretty=pretty)

    page = read_page(answer(body))

    assert [item for item, _ in page.items] == as_watched(items)
    assert (page.version, page.token, page.size) == ("5", "", len(body))


@given(items=ITEMS, order=st.sampled_from([go_order, custom_order]), cut=st.integers(1, 400))
def test_a_body_that_breaks_off_is_never_a_shorter_list(items: list[Any], order: Callable[..., Any], cut: int) -> None:
    body = written(order(items))

    with pytest.raises(UnexpectedResponseError):
        list(read_page(answer(body[: max(0, len(body) - cut)])).items)


@pytest.mark.parametrize("order", [go_order, custom_order])
@pytest.mark.parametrize("items", [[], None])
def test_an_empty_list_has_no_items(order: Callable[..., Any], items: list[Any] | None) -> None:
    page = read_page(answer(written(order(items))))

    assert (list(page.items), page.version) == ([], "5")


def test_items_of_something_else_in_the_list_are_not_its_items() -> None:
    listing = {"kind": "PodList", "metadata": {"resourceVersion": "5", "odd": {"items": [{"metadata": {}}]}}}

    page = read_page(answer(written(listing)))

    assert list(page.items) == []


def test_the_metadata_alone_keeps_the_kind_that_it_has() -> None:
    items = [
        {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": {"name": name}} for name in "xyz"
    ]
    listing = {**go_order(items, **{"continue": "next"}), "kind": "PartialObjectMetadataList"}

    page = read_page(answer(written(listing)))

    assert [item for item, _ in page.items] == items
    assert page.token == "next"


def test_each_item_has_its_own_size_and_is_parsed_when_it_is_taken() -> None:
    small, large = {"metadata": {"name": "s"}}, {"metadata": {"name": "l"}, "data": "x" * 1000}
    body = written(go_order([small, large, small])).replace(b'"data":"x', b'"data":x')

    items = read_page(answer(body)).items

    assert next(items)[1] == len(written(small))
    with pytest.raises(UnexpectedResponseError):
        next(items)


@pytest.mark.parametrize(
    "value",
    [
        [],
        {"kind": "PodList", "items": []},
        {"kind": "PodList", "metadata": {"resourceVersion": 5}, "items": []},
        {"kind": "PodList", "metadata": {"resourceVersion": ""}, "items": []},
        {"kind": "PodList", "metadata": {"resourceVersion": "5"}, "items": {"metadata": {}}},
        {"kind": "Table", "metadata": {"resourceVersion": "5"}, "rows": [{"object": {"items": [0]}}]},
        {"kind": 7, "metadata": {"resourceVersion": "5"}, "items": []},
        {"message": '"items":[', "items": [0]},
    ],
    ids=str,
)
def test_what_is_no_list_with_a_version_is_refused_with_what_it_is(value: Any) -> None:
    with pytest.raises(UnexpectedResponseError, match="GET /pods"):
        read_page(answer(written(value)))


@pytest.mark.parametrize(
    ("most", "pages", "limits"),
    [
        (500, [100_000, 500_000], [100, 500, 500]),
        (500, [100 * 2**20, 2 * 2**20], [100, 2, 2]),
        (500, [1000 * 2**20], [100, 1]),
        (500, [0], [100, 100]),
        (3, [10, 10], [3, 3, 3]),
    ],
    ids=["small objects", "large objects", "huge objects", "an empty page", "few are wanted"],
)
def test_pages_grow_and_shrink_to_the_size_that_is_aimed_at(most: int, pages: list[int], limits: list[int]) -> None:
    size = PageSize(most, 2 * 2**20)

    asked = [size.next]
    for page in pages:
        size.learn(size.next, page)
        asked.append(size.next)

    assert asked == limits


@define
class Pages:
    """A list of some pages, each a second's work, which takes another to be given up."""

    answers: list[Response | KubeError]
    log: list[str] = field(factory=list)

    async def fetch(self, params: dict[str, str]) -> Response:
        self.log.append(f"ask {params.get('continue', 'first')}")
        try:
            await asyncio.sleep(1)
        except asyncio.CancelledError:
            await asyncio.sleep(1)
            raise
        outcome = self.answers.pop(0)
        if isinstance(outcome, KubeError):
            raise outcome
        return outcome

    async def read(self, seconds: float) -> None:
        """Take the pages, and take so long for each."""
        async with PagesAhead(self.fetch, PageSize(500, 2**20)) as pages:
            async for page in pages:
                self.log.append(f"take {page.token or 'last'}")
                await asyncio.sleep(seconds)


def page(token: str) -> Response:
    return answer(written(go_order([], **{"continue": token})))


def test_the_next_page_is_asked_for_before_one_is_worked_on() -> None:
    async def story() -> tuple[list[str], float]:
        pages = Pages([page("two"), page("three"), page("")])
        await pages.read(1)
        return pages.log, asyncio.get_running_loop().time()

    log, took = run_virtual(story())

    assert log == ["ask first", "ask two", "take two", "ask three", "take three", "take last"]
    assert took == 4


@pytest.mark.parametrize("seconds", [0, 5], ids=["a quick reader", "a slow reader"])
def test_an_error_of_the_next_page_is_raised_in_its_turn(seconds: float) -> None:
    async def story() -> list[str]:
        pages = Pages([page("two"), UnavailableError("refused")])
        with pytest.raises(UnavailableError):
            await pages.read(seconds)
        return pages.log

    assert run_virtual(story()) == ["ask first", "ask two", "take two"]


def test_a_page_that_leads_to_itself_is_no_next_page() -> None:
    async def story() -> list[str]:
        pages = Pages([page("two"), page("two"), page("")])
        with pytest.raises(UnexpectedResponseError, match="continue token"):
            await pages.read(0)
        return pages.log

    assert run_virtual(story()) == ["ask first", "ask two", "take two"]


@pytest.mark.parametrize("fails", [False, True], ids=["answered", "failed"])
@pytest.mark.parametrize("moment", [0, 0.5, 1, 1.5, 2, 2.5, 3, 3.5])
def test_stopping_in_the_middle_leaves_no_task_and_no_error(fails: bool, moment: float) -> None:
    async def story() -> tuple[int, list[Any]]:
        complaints = list[Any]()
        asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
        ahead = UnavailableError("refused") if fails else page("three")
        reading = asyncio.create_task(Pages([page("two"), ahead, page("")]).read(2))
        del ahead
        await asyncio.sleep(moment)
        reading.cancel()
        await asyncio.wait([reading])
        left = len(asyncio.all_tasks())
        assert reading.cancelled() or isinstance(reading.exception(), UnavailableError)
        # A task tells of an error that nobody looked at when it is collected.
        del reading
        gc.collect()
        return left, complaints

    assert run_virtual(story()) == (1, [])
