"""Validation of unit templates: variables, ports, readiness probes."""

import re
from collections.abc import Iterator
from typing import Final

from gpuruntime.api.readiness import ReadinessProbe
from gpuruntime.api.unit_template import RESERVED_ENV, EnvSource, UnitEnv, UnitPort, UnitTemplate
from gpuruntime.desired.problems import Problem, bad_choice, bad_number, bad_object_name, bad_text, repeated

__all__ = ["template_problems"]

_ENV_NAME: Final = re.compile(r"[-._a-zA-Z][-._a-zA-Z0-9]*")
_KEY: Final = re.compile(r"[-._a-zA-Z0-9]+")
_PORT_NAME: Final = re.compile(r"([0-9]+-)*[0-9]*[a-z][a-z0-9]*(-[a-z0-9]+)*")
_NUL: Final = re.compile(r"\x00")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_NOT_IN_HEADERS: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_HEADER: Final = re.compile(r"[-A-Za-z0-9]+")


def template_problems(path: str, template: UnitTemplate) -> Iterator[Problem]:
    yield from _arguments(f"{path}.command", template.command)
    yield from _arguments(f"{path}.args", template.args)
    for index, env in enumerate(template.envs):
        yield from _env(f"{path}.envs[{index}]", env)
    yield from repeated(f"{path}.envs", tuple(env.name for env in template.envs), "variable")
    for index, port in enumerate(template.ports):
        yield from _port(f"{path}.ports[{index}]", port)
    yield from repeated(f"{path}.ports", tuple(port.name for port in template.ports), "name")
    numbers = tuple(f"{port.port}/{port.protocol}" for port in template.ports)
    yield from repeated(f"{path}.ports", numbers, "port and protocol")
    if template.readiness_probe is not None:
        names = tuple(port.name for port in template.ports)
        yield from _probe(f"{path}.readinessProbe", template.readiness_probe, names)


def _arguments(path: str, arguments: tuple[str, ...]) -> Iterator[Problem]:
    for index, argument in enumerate(arguments):
        yield from _unprintable(f"{path}[{index}]", argument, _NUL, "a string without NUL")


def _unprintable(path: str, text: str | None, characters: re.Pattern[str], expected: str) -> Iterator[Problem]:
    """Reports the position of an invalid character, and not the text, which may be secret."""
    found = characters.search(text or "")
    if found is not None:
        yield Problem(path, expected, f"character {ord(found[0])} at position {found.start()}")


def _env(path: str, env: UnitEnv) -> Iterator[Problem]:
    expected = "a name of letters, digits, '-', '_' and '.' that does not begin with a digit"
    yield from bad_text(f"{path}.name", env.name, _ENV_NAME, 253, expected)
    if env.name in {".", ".."} or env.name.startswith(".."):
        yield Problem.of(f"{path}.name", "a name that does not begin with two dots", env.name)
    if env.name in RESERVED_ENV:
        yield Problem.of(f"{path}.name", "a name that the operator does not reserve", env.name)
    yield from _unprintable(f"{path}.value", env.value, _NUL, "a string without NUL")
    if env.value is not None and env.value_from is not None:
        yield Problem(path, "value or valueFrom", "both")
    if env.value_from is not None:
        yield from _source(f"{path}.valueFrom", env.value_from)


def _source(path: str, source: EnvSource) -> Iterator[Problem]:
    references = {"secretKeyRef": source.secret_key_ref, "configMapKeyRef": source.config_map_key_ref}
    given = {name: reference for name, reference in references.items() if reference is not None}
    if len(given) != 1:
        yield Problem(path, f"exactly one of {' and '.join(references)}", "both" if given else "neither")
    for name, reference in given.items():
        yield from bad_object_name(f"{path}.{name}.name", reference.name)
        yield from bad_text(f"{path}.{name}.key", reference.key, _KEY, 253, "a key of letters, digits, '-', '_', '.'")
        if reference.key == "." or reference.key.startswith(".."):
            yield Problem.of(f"{path}.{name}.key", "a key that is not '.' and does not begin with '..'", reference.key)


def _port(path: str, port: UnitPort) -> Iterator[Problem]:
    expected = "a name of lower-case letters, digits and single dashes with at least one letter"
    yield from bad_text(f"{path}.name", port.name, _PORT_NAME, 15, expected)
    yield from bad_number(f"{path}.port", port.port, 1, 65535)
    yield from bad_choice(f"{path}.protocol", port.protocol, ("TCP", "UDP", "SCTP"))


def _probe(path: str, probe: ReadinessProbe, port_names: tuple[str, ...]) -> Iterator[Problem]:
    handlers = {"httpGet": probe.http_get, "tcpSocket": probe.tcp_socket, "exec": probe.exec, "grpc": probe.grpc}
    given = [name for name, handler in handlers.items() if handler is not None]
    if len(given) != 1:
        yield Problem(path, f"exactly one of {', '.join(handlers)}", " and ".join(given) or "none")
    if probe.http_get is not None:
        yield from _probe_port(f"{path}.httpGet.port", probe.http_get.port, port_names)
        yield from _unprintable(f"{path}.httpGet.path", probe.http_get.path, _CONTROL, "no control characters")
        yield from bad_choice(f"{path}.httpGet.scheme", probe.http_get.scheme, ("HTTP", "HTTPS"))
        for index, header in enumerate(probe.http_get.http_headers):
            place = f"{path}.httpGet.httpHeaders[{index}]"
            yield from bad_text(f"{place}.name", header.name, _HEADER, 256, "the name of a header")
            yield from _unprintable(
                f"{place}.value", header.value, _NOT_IN_HEADERS, "no control characters except tabs"
            )
    if probe.tcp_socket is not None:
        yield from _probe_port(f"{path}.tcpSocket.port", probe.tcp_socket.port, port_names)
    if probe.exec is not None:
        yield from _arguments(f"{path}.exec.command", probe.exec.command)
        if not probe.exec.command:
            yield Problem(f"{path}.exec.command", "a command", "none")
    if probe.grpc is not None:
        yield from bad_number(f"{path}.grpc.port", probe.grpc.port, 1, 65535)
        yield from _unprintable(f"{path}.grpc.service", probe.grpc.service, _CONTROL, "no control characters")
    yield from bad_number(f"{path}.initialDelaySeconds", probe.initial_delay_seconds, 0, 86400)
    yield from bad_number(f"{path}.periodSeconds", probe.period_seconds, 1, 86400)
    yield from bad_number(f"{path}.timeoutSeconds", probe.timeout_seconds, 1, 86400)
    yield from bad_number(f"{path}.successThreshold", probe.success_threshold, 1, 1000)
    yield from bad_number(f"{path}.failureThreshold", probe.failure_threshold, 1, 1000)


def _probe_port(path: str, port: int | str, names: tuple[str, ...]) -> Iterator[Problem]:
    if isinstance(port, int):
        yield from bad_number(path, port, 1, 65535)
    elif port not in names:
        yield Problem.of(path, f"a number, or the name of a port of the template ({', '.join(names) or 'none'})", port)
