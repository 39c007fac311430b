"""docs/operating.md, word for word: from an empty cluster to an empty cluster."""

from pathlib import Path

from tests.docs.operated_site import operated_site
from tests.docs.pages import PAGES

BLOCKS = PAGES["operating"].of("sh")


def test_the_commands_of_the_page_install_operate_and_uninstall_the_product(tmp_path: Path) -> None:
    first_request = next(number for number, block in enumerate(BLOCKS) if "curl" in block)

    with operated_site(tmp_path) as site:
        for block in BLOCKS[:first_request]:
            site.type(block)
        site.start_processes(site.clone / "site")
        shown = [site.type(block) for block in BLOCKS[first_request:]]

    assert '"phase":"Ready"' in shown[0].replace(" ", "")
    assert shown[-1] == ""
