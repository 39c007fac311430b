import pytest
from multidict import CIMultiDict

from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.control import Cache
from gpuruntime.endpoints.server.errors import ApiError
from gpuruntime.endpoints.server.headers import at_least, deletion_headers, if_match, matches_any, operation_id
from gpuruntime.endpoints.server.route import Idempotency
from gpuruntime.kube.client import Client
from gpuruntime.meta.identity import ObjectKey
from gpuruntime.service.reads.reader import Reads
from gpuruntime.testing.virtual_time import run_virtual


@pytest.mark.parametrize(
    ("header", "body", "found"), [("a", None, "a"), (None, "a", "a"), ("a", "a", "a"), ("!~" * 126, None, "!~" * 126)]
)
def test_the_operation_id_comes_from_the_header_or_the_body(header: str | None, body: str | None, found: str) -> None:
    headers = CIMultiDict({} if header is None else {"Idempotency-Key": header})

    assert operation_id(headers, body, Idempotency.REQUIRED) == found


@pytest.mark.parametrize(
    ("header", "body", "path"),
    [
        ("a", "b", "$.operationID"),
        (None, None, "$.operationID"),
        (None, "", "$.operationID"),
        (None, 7, "$.operationID"),
        (None, "with space", "$.operationID"),
        (None, "x" * 254, "$.operationID"),
        ("", None, "header Idempotency-Key"),
        ("é", "a", "header Idempotency-Key"),
    ],
)
def test_a_missing_or_malformed_operation_id_is_rejected(header: str | None, body: object, path: str) -> None:
    headers = CIMultiDict({} if header is None else {"Idempotency-Key": header})

    with pytest.raises(ApiError) as caught:
        operation_id(headers, body, Idempotency.REQUIRED)

    assert [fault.path for fault in caught.value.details] == [path]


def test_an_operation_id_is_generated_where_none_is_required() -> None:
    made = {operation_id(CIMultiDict(), None, Idempotency.ACCEPTED) for _ in range(3)}

    assert len(made) == 3


@pytest.mark.parametrize(("text", "version"), [('"41"', "41"), (' "41" ', "41"), ("*", None)])
def test_if_match_names_one_version_or_any(text: str, version: str | None) -> None:
    assert if_match(CIMultiDict({"If-Match": text})) == version


@pytest.mark.parametrize(("text", "status"), [('W/"41"', 412), ("41", 400), ('"1", "2"', 400), ("", 400), ('""', 400)])
def test_a_malformed_if_match_is_rejected(text: str, status: int) -> None:
    with pytest.raises(ApiError) as caught:
        if_match(CIMultiDict({"If-Match": text}))

    assert caught.value.status == status


@pytest.mark.parametrize("text", ["\udcff", "W/\udcff"])
def test_invalid_utf_8_is_quoted_as_an_escape(text: str) -> None:
    with pytest.raises(ApiError) as caught:
        if_match(CIMultiDict({"If-Match": text}))

    assert caught.value.message.isascii()


@pytest.mark.parametrize(
    ("known", "same"), [('"7"', True), ('W/"7"', True), ('"6", "7"', True), ("*", True), ('"6"', False), ("", False)]
)
def test_if_none_match_lists_etags(known: str, same: bool) -> None:
    assert matches_any({"If-None-Match": known}, '"7"') == same


def test_a_read_may_name_the_oldest_version_to_show() -> None:
    assert at_least(CIMultiDict({"X-Resource-Version": "1234"})) == "1234"
    assert at_least(CIMultiDict()) == ""


@pytest.mark.parametrize("text", ["", "0", "-1", "abc", "1" * 41])
def test_a_malformed_resource_version_is_rejected(text: str) -> None:
    with pytest.raises(ApiError, match="resourceVersion"):
        at_least(CIMultiDict({"X-Resource-Version": text}))


@pytest.mark.parametrize("name", ["Idempotency-Key", "If-Match", "X-Resource-Version"])
def test_a_repeated_header_is_rejected_where_only_one_is_valid(name: str) -> None:
    headers = CIMultiDict([(name, '"1"'), (name.lower(), '"2"')])

    with pytest.raises(ApiError, match=f"header {name}: .*2 times"):
        _read(headers, name)


def _read(headers: CIMultiDict[str], name: str) -> object:
    if name == "Idempotency-Key":
        return operation_id(headers, None, Idempotency.ACCEPTED)
    return if_match(headers) if name == "If-Match" else at_least(headers)


def test_a_deletion_has_the_version_of_its_own_namespace() -> None:
    async def story() -> None:
        wire = None  # a filled cache sends no requests
        informer = Cache(wire).informer(GPUUnit, namespaces=["busy", "quiet"])  # type: ignore[arg-type]  # see wire
        writer = informer._writer
        for namespace, version in (("busy", "20"), ("quiet", "10")):
            await writer.replace(namespace, writer.new_indexer(), version)
        reads = Reads(informer, Client(wire, field_manager="test"), GPUUnit)  # type: ignore[arg-type]  # see wire

        headers = await deletion_headers(reads, ObjectKey("busy", "demo"), "uid")

        assert headers["X-Resource-Version"] == "20"

    run_virtual(story())
