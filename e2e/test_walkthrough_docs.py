"""docs/api.md, docs/storage.md and docs/functions.md, word for word: commands get the responses that they show."""

import re
import time

import pytest

from e2e.conftest import Terminal
from tests.docs.pages import PAGES

# Values that differ in each run. The API may see a later unit of a batch as ready first, and claim it.
MASKS = (
    (re.compile(r'("(?:sourceStockName|stockID)": "[\w-]+-)\d+"'), r'\1N"'),
    (re.compile(r"(prepare-\w+)-[0-9a-f]{10}-(\d+)-\w{5}\b"), r"\1-DIGEST-\2-POD"),
    # `fold` keeps the space before a break.
    (re.compile(r" +$", re.MULTILINE), ""),
    (re.compile(r'"\d{4}-\d\d-\d\dT[\d:.]+Z"'), '"TIME"'),
    (re.compile(r'("(?:uptimeSeconds|cacheAgeSeconds)": )[\d.]+'), r"\1N"),
)


def masked(text: str) -> str:
    for pattern, instead in MASKS:
        text = pattern.sub(instead, text)
    return text


def typed(terminal: Terminal, command: str, expected: str) -> str:
    """The output of a command. What only reads is typed again for a while: a cache may be a moment behind."""
    deadline = time.monotonic() + (0 if " -X " in command else 30)
    while True:
        said = terminal.type(command)
        if masked(said) == masked(expected) or time.monotonic() > deadline:
            return said


def assert_answers(terminal: Terminal, page: str) -> None:
    # What needs containers is typed in test_real_node.
    fences = [(kind, body) for kind, body in PAGES[page].fences if kind in {"sh", "text"}]
    commands = [body for kind, body in fences if kind == "sh"]
    # A picture at the beginning is no answer.
    fences = fences[[kind for kind, _ in fences].index("sh") :]
    shown = [body for kind, body in fences if kind == "text"]

    answers = [typed(terminal, command, expected) for command, expected in zip(commands, shown, strict=True)]

    assert [kind for kind, _ in fences] == ["sh", "text"] * len(commands)
    assert list(map(masked, answers)) == list(map(masked, shown))


@pytest.mark.parametrize("page", ["api", "storage"])
def test_every_command_of_the_page_gets_the_response_that_it_shows(terminal: Terminal, page: str) -> None:
    assert_answers(terminal, page)


@pytest.mark.usefixtures("hello")
def test_every_command_about_functions_gets_the_response_that_it_shows(terminal: Terminal) -> None:
    assert_answers(terminal, "functions")
