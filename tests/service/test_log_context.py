import asyncio
import logging

from gpuruntime.api.gpuunit import GPUUnitSpec
from gpuruntime.api.names import REQUEST_ID
from gpuruntime.api.operation import CREATE_GPU_UNIT
from gpuruntime.service.log_context import RequestFields, current_request_id, logged_as, logged_for
from gpuruntime.service.operations.record import new_operation
from gpuruntime.service.units.create import CreateUnit

REQUEST = CreateUnit("demo", GPUUnitSpec("g1.1", image="nginx"))


def fields(**extra: str) -> tuple[object, object]:
    record = logging.makeLogRecord(extra)
    assert RequestFields().filter(record)
    return getattr(record, "request_id", None), getattr(record, "operation_id", None)


async def test_log_lines_of_the_block_and_of_its_tasks_carry_the_ids_of_the_request() -> None:
    async def later() -> tuple[object, object]:
        return fields()

    with logged_as("r-1", "order-1"):
        inside, task = fields(), asyncio.create_task(later())

    assert (inside, await task) == (("r-1", "order-1"), ("r-1", "order-1"))
    assert fields() == (None, None)


def test_a_field_that_a_line_sets_itself_is_kept() -> None:
    with logged_as("r-1", "order-1"):
        assert fields(operation_id="order-2") == ("r-1", "order-2")


def test_an_operation_stores_the_ids_of_its_request() -> None:
    with logged_as("r-1"):
        named = {"namespace": "s", "created_by": "me", "request_id": current_request_id.get()}
        made = new_operation("order-1", CREATE_GPU_UNIT, "hash", REQUEST, **named)

    with logged_for(made):
        assert fields() == ("r-1", "order-1")
    assert made.metadata.annotations[REQUEST_ID] == "r-1"
