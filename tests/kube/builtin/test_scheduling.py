from gpuruntime.kube.builtin.scheduling import PriorityClass
from gpuruntime.meta.codec import decode, encode
from gpuruntime.meta.objects import ObjectMeta


def test_the_value_is_written_even_if_it_is_zero() -> None:
    stock = PriorityClass(ObjectMeta(name="stock"), 0, preemption_policy="Never")

    encoded = encode(stock)

    assert encoded == {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "stock"},
        "value": 0,
        "preemptionPolicy": "Never",
    }
    assert decode(PriorityClass, encoded) == stock
