import io
import json
import logging
from collections.abc import Iterator

import pytest

from gpuruntime.processes.logs import configure_logging
from gpuruntime.service.log_context import current_request_id


@pytest.fixture(autouse=True)
def restored_root_logger() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def test_lines_that_are_logged_while_a_request_is_served_carry_its_id() -> None:
    stream = io.StringIO()
    configure_logging(stream)

    token = current_request_id.set("r-1")
    try:
        logging.getLogger("unit").info("claimed", extra={"unit": "a-1"})
    finally:
        current_request_id.reset(token)
    logging.getLogger("unit").info("idle")

    served, idle = map(json.loads, stream.getvalue().splitlines())
    assert {"message": "claimed", "unit": "a-1", "request_id": "r-1"}.items() <= served.items()
    assert "request_id" not in idle
