from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.api.operation import Operation, OperationSpec, operation_name
from gpuruntime.meta.codec import decode, encode
from gpuruntime.meta.frozen_mapping import freeze
from gpuruntime.meta.names import is_dns_label
from gpuruntime.meta.objects import ObjectMeta


@given(st.text(min_size=1))
def test_every_operation_id_has_a_valid_name(operation_id: str) -> None:
    assert is_dns_label(operation_name(operation_id))


@given(st.text(min_size=1), st.text(min_size=1))
def test_different_operation_ids_have_different_names(one: str, other: str) -> None:
    assert (operation_name(one) == operation_name(other)) == (one == other)


def test_the_name_of_an_operation_is_the_same_on_every_replica_and_in_every_release() -> None:
    assert operation_name("stock-g1-demo-001") == "op-c971ef1c0ec33ee08b30630c99c9a14e76c7c0b1"


def test_a_request_is_kept_unchanged_and_never_in_the_repr() -> None:
    request = {"envs": [{"name": "TOKEN", "value": "s3cret"}], "gpu": 1}
    spec = OperationSpec("one", "1", "create_gpu_unit", freeze(request))

    operation = Operation(ObjectMeta(name=operation_name("one")), spec)

    assert encode(operation)["spec"]["request"] == request
    assert decode(Operation, encode(operation)) == operation
    assert "s3cret" not in repr(operation)
