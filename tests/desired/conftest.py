"""`python -m pytest tests/desired --update-golden` rewrites the files in golden/; review the diff."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write what is rendered now as what is expected")
