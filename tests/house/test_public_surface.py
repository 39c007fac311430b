"""The public surface changes only on purpose."""

import difflib

from hack.generators.surface import LISTING, MODULES, surface


def test_the_public_surface_is_the_one_that_was_accepted() -> None:
    accepted, found = LISTING.read_text(), surface()

    changes = difflib.unified_diff(accepted.splitlines(), found.splitlines(), "accepted", "found", lineterm="", n=2)

    assert accepted == found, (
        "the public surface differs from docs/reference/surface.txt. If the change is intended and"
        " in CHANGELOG.md, accept it: ./hack/in-venv -m hack.generators.surface --accept\n" + "\n".join(changes)
    )


def test_every_public_module_is_in_the_listing_once() -> None:
    headings = [line for line in LISTING.read_text().splitlines() if line.startswith("gpuruntime")]

    assert tuple(headings) == MODULES
