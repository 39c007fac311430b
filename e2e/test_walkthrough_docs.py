"""docs/api.md, word for word: its commands get the responses that it shows."""

import re

from e2e.conftest import Terminal
from tests.docs.pages import PAGES

# Values that differ in each run.
MASKS = (
    (re.compile(r'"\d{4}-\d\d-\d\dT[\d:.]+Z"'), '"TIME"'),
    (re.compile(r'("(?:uptimeSeconds|cacheAgeSeconds)": )[\d.]+'), r"\1N"),
)


def masked(text: str) -> str:
    for pattern, instead in MASKS:
        text = pattern.sub(instead, text)
    return text


def test_every_command_of_the_page_gets_the_response_that_it_shows(terminal: Terminal) -> None:
    fences = PAGES["api"].fences
    commands = [body for kind, body in fences if kind == "sh"]
    shown = [body for kind, body in fences if kind == "text"]

    answers = [terminal.type(command) for command in commands]

    assert [kind for kind, _ in fences] == ["sh", "text"] * len(commands)
    assert list(map(masked, answers)) == list(map(masked, shown))
