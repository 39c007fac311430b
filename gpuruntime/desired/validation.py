"""Validation of units: rules that the CRD cannot express, and specs that were stored before a rule existed.

A unit without problems can be rendered, and the API server accepts its children as rendered.
"""

import re
from collections.abc import Iterator
from typing import Final

import orjson

from gpuruntime.api.envelope import CPU_BOUNDS, GPU_PRODUCT, MEMORY_BOUNDS
from gpuruntime.api.gpuunit import GPUUnit, GPUUnitSpec
from gpuruntime.api.placement import UnitToleration
from gpuruntime.api.security_profile import SECURITY_PROFILES
from gpuruntime.api.stockpool import StockPoolSpec
from gpuruntime.desired.pools.units import stock_spec
from gpuruntime.desired.problems import Problem, bad_choice, bad_label, bad_number, bad_object_name, bad_text, repeated
from gpuruntime.desired.template_validation import template_problems
from gpuruntime.desired.units.known_fields import known_fields
from gpuruntime.meta import ObjectMeta, QuantityError, parse_quantity

__all__ = ["SPEC_LIMIT", "problems", "stock_problems"]

SPEC_LIMIT: Final = 96 * 1024
"""Maximum size of a spec in bytes of JSON. Its pod template is stored in an annotation, and annotations are limited to
256 KiB per object."""

_LABEL_VALUE: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_IMAGE: Final = re.compile(r"[!-~]+")
_SCHEMES: Final = ("http", "https", "ws", "wss", "grpc", "grpcs", "tcp")
_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def problems(unit: GPUUnit) -> tuple[Problem, ...]:
    """All problems of a unit, in the order of its fields; none if it can be rendered.

    Guarantees: values that may be secret are not quoted.
    """
    return tuple(_spec(unit.spec))


def stock_problems(spec: StockPoolSpec) -> tuple[Problem, ...]:
    """All problems of the stock units that a pool would create, by the fields of the pool."""
    return problems(GPUUnit(ObjectMeta(), stock_spec(spec)))


def _spec(spec: GPUUnitSpec) -> Iterator[Problem]:
    yield from _envelope(spec)
    yield from template_problems("spec.template", spec.template)
    yield from _access(spec)
    yield from _placement(spec)
    size = len(orjson.dumps(known_fields(spec)))
    if size > SPEC_LIMIT:
        yield Problem(
            "spec", f"at most {SPEC_LIMIT} bytes; move long texts to a ConfigMap or the image", f"{size} bytes"
        )


def _envelope(spec: GPUUnitSpec) -> Iterator[Problem]:
    yield from bad_text("spec.specName", spec.spec_name, _LABEL_VALUE, 63, "letters, digits, '-', '_' and '.'")
    if spec.image is not None:
        yield from bad_text("spec.image", spec.image, _IMAGE, 1024, "an image without spaces")
    yield from _amount("spec.cpu", spec.cpu, CPU_BOUNDS, "500m or 4")
    yield from _amount("spec.memory", spec.memory, MEMORY_BOUNDS, "16Gi")
    yield from bad_number("spec.gpu", spec.gpu, 0, 1024)
    if spec.gpu_type is not None:
        yield from bad_text("spec.gpuType", spec.gpu_type, _LABEL_VALUE, 63, "letters, digits, '-', '_' and '.'")


def _amount(path: str, amount: int | str | None, bounds: tuple[str, str], example: str) -> Iterator[Problem]:
    if amount is None:
        return
    least, most = map(parse_quantity, bounds)
    expected = f"a quantity from {bounds[0]} to {bounds[1]} such as {example}"
    try:
        quantity = parse_quantity(amount)
    except QuantityError:
        yield Problem.of(path, expected, amount)
        return
    if not least <= quantity <= most:
        yield Problem.of(path, expected, amount)


def _access(spec: GPUUnitSpec) -> Iterator[Problem]:
    yield from bad_choice("spec.access.scheme", spec.access.scheme, _SCHEMES)
    primary, reachable = spec.access.primary_port, [port for port in spec.template.ports if port.protocol == "TCP"]
    if primary is not None and primary not in {port.name for port in reachable}:
        names = ", ".join(port.name for port in reachable) or "none"
        yield Problem.of("spec.access.primaryPort", f"the name of a TCP port of the template ({names})", primary)


def _placement(spec: GPUUnitSpec) -> Iterator[Problem]:
    for index, secret in enumerate(spec.image_pull_secrets):
        yield from bad_object_name(f"spec.imagePullSecrets[{index}].name", secret.name)
    names = tuple(secret.name for secret in spec.image_pull_secrets)
    yield from repeated("spec.imagePullSecrets", names, "Secret")
    for index, toleration in enumerate(spec.tolerations):
        yield from _toleration(f"spec.tolerations[{index}]", toleration)
    for key, value in spec.node_selector.items():
        yield from bad_label("spec.nodeSelector", key, value)
    product = spec.node_selector.get(GPU_PRODUCT, spec.gpu_type)
    if spec.gpu_type is not None and product != spec.gpu_type:
        yield Problem.of(f"spec.nodeSelector[{GPU_PRODUCT}]", f"{spec.gpu_type!r} as in spec.gpuType", product)
    if spec.runtime_class_name is not None:
        yield from bad_object_name("spec.runtimeClassName", spec.runtime_class_name)
    yield from bad_choice("spec.securityProfile", spec.security_profile, SECURITY_PROFILES)


def _toleration(path: str, toleration: UnitToleration) -> Iterator[Problem]:
    yield from bad_choice(f"{path}.operator", toleration.operator, ("Exists", "Equal"))
    yield from bad_choice(f"{path}.effect", toleration.effect, _EFFECTS)
    exists = toleration.operator == "Exists"
    if toleration.key:
        yield from bad_label(path, toleration.key, "" if exists else toleration.value or "")
    elif not exists:
        yield Problem(f"{path}.key", "a key, or operator Exists", "neither")
    if exists and toleration.value:
        yield Problem.of(f"{path}.value", "no value with operator Exists", toleration.value)
    if toleration.toleration_seconds is not None and toleration.effect != "NoExecute":
        yield Problem.of(f"{path}.effect", "NoExecute with tolerationSeconds", toleration.effect)
