"""YAML of which JSON can hold every value."""

import io
from typing import Any

import yaml

__all__ = ["parse_yaml"]


class _Loader(yaml.SafeLoader):
    """YAML of which JSON can hold every value: dates stay text."""

    yaml_implicit_resolvers = {  # noqa: RUF012  # the base class declares it without ClassVar
        first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


def parse_yaml(content: bytes) -> Any:
    """The value of a YAML text.

    Raises:
        ValueError: it is none; the message quotes nothing of it, because it may hold secrets.
    """
    try:
        # From a stream, because the errors of a parser that has the whole text quote it.
        return yaml.load(io.BytesIO(content), _Loader)  # noqa: S506 - a safe loader, see above
    except yaml.MarkedYAMLError as error:
        line = f"line {error.problem_mark.line + 1}: " if error.problem_mark else ""
        raise ValueError(f"{line}expected YAML: {error.problem}") from error
    except (yaml.YAMLError, ValueError) as error:
        raise ValueError("expected YAML text") from error
