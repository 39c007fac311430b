import io
import json
import logging
from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest

from gpuruntime.control import configure_logging
from gpuruntime.control.controllers.controller import current_context
from gpuruntime.control.log_format import LogFormat


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Marked(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        record.replica = "r-1"
        return True


@pytest.fixture(autouse=True)
def restored_root_logger() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def test_json_is_one_object_per_line_with_separate_fields() -> None:
    stream = io.StringIO()
    configure_logging(stream)

    logging.getLogger("unit").info("claimed", extra={"unit": "a-1"})

    line = json.loads(stream.getvalue())
    assert {"level": "INFO", "logger": "unit", "message": "claimed", "unit": "a-1"}.items() <= line.items()
    assert datetime.fromisoformat(line["time"]).utcoffset() == timedelta(0)


def test_a_terminal_gets_a_short_line() -> None:
    stream = Terminal()
    configure_logging(stream)

    logging.getLogger("unit").warning("claimed", extra={"unit": "a-1"})

    assert stream.getvalue().split(" ", 1)[1] == "WARNING claimed  unit=a-1\n"


def test_a_field_with_special_characters_is_quoted() -> None:
    stream = Terminal()
    configure_logging(stream)

    logging.getLogger("unit").warning("failed", extra={"error": 'no "a"\nERROR forged', "labels": "a=b", "hint": ""})

    shown = 'failed  error="no \\"a\\"\\nERROR forged" labels="a=b" hint=""\n'
    assert stream.getvalue().partition("WARNING ")[2] == shown


def test_text_includes_tracebacks_and_stacks() -> None:
    stream = Terminal()
    configure_logging(stream)

    try:
        int("broken")
    except ValueError:
        logging.getLogger("unit").exception("failed", stack_info=True)

    head, _, stack = stream.getvalue().partition("'broken'\n")
    assert "failed\nTraceback" in head
    assert stack.startswith("Stack (most recent call last)")


@pytest.mark.parametrize(
    ("stream", "format_", "is_json"),
    [(Terminal(), "json", True), (io.StringIO(), "text", False)],
    ids=["JSON on a terminal", "text in a file"],
)
def test_an_explicit_format_is_used_on_any_stream(stream: io.StringIO, format_: LogFormat, is_json: bool) -> None:
    configure_logging(stream, format=format_)

    logging.getLogger("unit").info("claimed")

    assert stream.getvalue().startswith("{") is is_json


def test_lines_of_a_run_carry_its_fields_and_those_of_the_program() -> None:
    stream = io.StringIO()
    configure_logging(stream, filters=[Marked()])

    token = current_context.set(("widgets", "a/b", "0123"))
    try:
        logging.getLogger("unit").info("inside")
    finally:
        current_context.reset(token)
    logging.getLogger("unit").info("outside")

    inside, outside = map(json.loads, stream.getvalue().splitlines())
    run = {"controller": "widgets", "key": "a/b", "reconcile_id": "0123"}
    assert (run | {"replica": "r-1"}).items() <= inside.items()
    assert outside["replica"] == "r-1"
    assert not run.keys() & outside.keys()


def test_an_earlier_setup_is_replaced_and_lines_are_written_once() -> None:
    before, after = io.StringIO(), io.StringIO()
    configure_logging(before)
    configure_logging(after, level="warning")

    logging.getLogger("unit").info("quiet")
    logging.getLogger("unit").warning("loud")

    assert before.getvalue() == ""
    assert [json.loads(line)["message"] for line in after.getvalue().splitlines()] == ["loud"]


def test_without_a_stream_lines_go_to_standard_error_as_it_is_then(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging(level="debug")

    logging.getLogger("unit").debug("claimed")

    assert json.loads(capsys.readouterr().err)["message"] == "claimed"


def test_an_unknown_level_or_format_is_refused_and_nothing_is_changed() -> None:
    handlers = logging.getLogger().handlers[:]

    with pytest.raises(ValueError, match=r"level: .*debug, info, .* 'loud'"):
        configure_logging(level="loud")
    with pytest.raises(ValueError, match=r"format: .*auto, json, text, .*'xml'"):
        configure_logging(format="xml")  # type: ignore[arg-type] # untyped programs may pass it

    assert logging.getLogger().handlers == handlers
