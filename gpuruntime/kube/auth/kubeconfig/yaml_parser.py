"""YAML whose values are all JSON values."""

import io
from typing import Any

import yaml

__all__ = ["parse_yaml"]


class _Loader(yaml.SafeLoader):
    """A loader of JSON values: dates stay strings."""

    yaml_implicit_resolvers = {  # noqa: RUF012  # the base class declares it without ClassVar
        first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


def parse_yaml(content: bytes) -> Any:
    """Parse YAML.

    Raises:
        ValueError: the text is not YAML; the message does not quote it, because it may hold secrets.
    """
    try:
        # From a stream: a parser that has the whole text quotes it in its errors.
        return yaml.load(io.BytesIO(content), _Loader)  # noqa: S506 - a safe loader, see above
    except yaml.MarkedYAMLError as error:
        line = f"line {error.problem_mark.line + 1}: " if error.problem_mark else ""
        raise ValueError(f"{line}expected YAML: {error.problem}") from error
    except (yaml.YAMLError, ValueError) as error:
        raise ValueError("expected YAML text") from error
