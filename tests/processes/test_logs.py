import io
import json
import logging
from collections.abc import Iterator

import pytest

from gpuruntime.processes.logs import configure_logging


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def restored_root_logger() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def test_machines_get_one_json_object_a_line_with_the_fields_apart() -> None:
    stream = io.StringIO()
    configure_logging(stream)

    logging.getLogger("unit").info("claimed", extra={"unit": "a-1"})

    line = json.loads(stream.getvalue())
    assert {"level": "INFO", "logger": "unit", "message": "claimed", "unit": "a-1"}.items() <= line.items()
    assert "time" in line


def test_a_person_gets_a_short_line() -> None:
    stream = Terminal()
    configure_logging(stream)

    logging.getLogger("unit").warning("claimed", extra={"unit": "a-1"})

    assert stream.getvalue().split(" ", 1)[1] == "WARNING claimed  unit=a-1\n"


def test_a_person_sees_the_traceback_too() -> None:
    stream = Terminal()
    configure_logging(stream)

    try:
        int("broken")
    except ValueError:
        logging.getLogger("unit").exception("failed")

    assert "failed\nTraceback" in stream.getvalue()
    assert stream.getvalue().endswith("'broken'\n")
