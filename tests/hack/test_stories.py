"""`hack/e2e`: its messages, and what it passes to pytest."""

import json
import re
from pathlib import Path

import pytest

from gpuruntime.testing.cluster.access import kubeconfig_document
from gpuruntime.testing.node.requirements import RealNodeUnavailableError
from hack.dev import stories
from hack.dev.stories import FILES, main


def test_every_story_of_the_product_is_listed_with_its_first_line(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["--list"])

    lines = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert code == 0
    assert lines.keys() == FILES.keys()
    assert lines["claim"] == "A user creates a unit, which claims stock."


def test_a_user_error_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    codes = [main(["claims"]), main(["--kubeconfig", str(tmp_path / "missing")])]

    assert codes == [1, 1]
    story, file = capsys.readouterr().err.splitlines()
    assert re.match("error: .* claims.*hack/e2e --list", story)
    assert file.startswith(f"error: --kubeconfig {tmp_path}/missing")


def test_stories_that_cannot_run_in_another_cluster_are_skipped_before_anything_is_set_up_there(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    unreachable = kubeconfig_document("https://127.0.0.1:1", b"", {"token": "t"})
    (tmp_path / "kubeconfig").write_text(json.dumps(unreachable))
    chosen = ["crd_upgrade", "failover", "install_and_uninstall", "rendering_upgrade"]

    code = main(["--kubeconfig", str(tmp_path / "kubeconfig"), *chosen])

    summary = capfd.readouterr().out.splitlines()[-1].strip("= ")
    assert (code, summary.partition(" in ")[0]) == (0, "5 skipped")


def test_a_machine_that_cannot_run_a_real_node_is_named_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse() -> None:
        raise RealNodeUnavailableError("runc is missing")

    monkeypatch.setattr(stories, "story_cluster", refuse)

    code = main(["--real-node", "claim"])

    assert (code, capsys.readouterr().err.splitlines()) == (1, ["error: runc is missing"])


def test_the_help_names_all_ways_to_run_the_stories(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])

    text = " ".join(capsys.readouterr().out.split())
    assert "hack/e2e --kubeconfig FILE" in text
    assert "hack/e2e --real-node" in text
    assert "load balancer" in text
