from collections.abc import Iterator
from pathlib import Path

import pytest
from attrs import frozen

from gpuruntime.processes.config.keys import Fault, key, keys, layout, section
from gpuruntime.processes.config.load import ConfigError, load_config
from gpuruntime.processes.config.notations import BOOLEAN, DURATION, FILE, NAMESPACE, count
from gpuruntime.processes.controller_manager import ControllerManagerConfig
from gpuruntime.processes.manager import ManagerConfig
from gpuruntime.processes.runtime_api import RuntimeApiConfig

PREFIX = "SHOP_"


@frozen
class Door:
    is_open: bool = key(BOOLEAN, True, "whether")
    closing_time: float = key(DURATION, 60.0, "when")


@frozen
class Shop:
    name: str = key(NAMESPACE, "corner", "what it is called")
    workers: int = key(count(1, 9), 2, "how many")
    goods: tuple[str, ...] = keys(NAMESPACE, ("bread",), "what is sold")
    licence: Path | None = key(FILE, None, "where it hangs")
    front_door: Door = section(Door)

    def faults(self) -> Iterator[Fault]:
        if self.workers > 5 and not self.front_door.is_open:
            yield Fault("workers", "expected at most 5 behind a closed door")


def read(text: str, tmp_path: Path, **environment: str) -> Shop:
    file = tmp_path / "shop.yaml"
    file.write_text(text)
    return load_config(Shop, file, environment, PREFIX).config


def problems(text: str, tmp_path: Path, **environment: str) -> list[str]:
    with pytest.raises(ConfigError) as refused:
        read(text, tmp_path, **environment)
    return [problem.removeprefix(f"{tmp_path / 'shop.yaml'}:") for problem in refused.value.problems]


def flag_problems(text: str, tmp_path: Path, **flags: list[str]) -> list[str]:
    file = tmp_path / "shop.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError) as refused:
        load_config(Shop, file, {}, PREFIX, flags)
    return list(refused.value.problems)


def is_between(text: str, start: str, end: str) -> bool:
    return text.startswith(start) and text.endswith(end)


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n", "frontDoor:\n", "frontDoor: {}\n"])
def test_a_key_that_is_left_out_has_its_default(text: str, tmp_path: Path) -> None:
    assert read(text, tmp_path) == Shop()
    assert load_config(Shop, None, {}, PREFIX).config == Shop()


def test_every_key_is_read(tmp_path: Path) -> None:
    text = "name: x\nworkers: 3\ngoods: [a, b]\nlicence: wall\nfrontDoor:\n  isOpen: false\n  closingTime: 90\n"

    assert read(text, tmp_path) == Shop("x", 3, ("a", "b"), Path("wall"), Door(is_open=False, closing_time=90.0))


def test_all_problems_are_reported_at_once_with_line_key_and_value(tmp_path: Path) -> None:
    text = """\
nmae: x
workers: "3"
goods: [a, B, {}]
licence: 7
frontDoor:
  isOpen: "yes"
  closingTime: 1:30
  isOpen: true
name: x
name: y
"""

    found = problems(text, tmp_path)
    expected = [
        ("1: nmae: ", "name?"),
        ("2: workers: ", "'3'"),
        ("3: goods[1]: ", "'B'"),
        ("3: goods[2]: ", "keys"),
        ("4: licence: ", "'7'"),
        ("6: frontDoor.isOpen: ", "'yes'"),
        ("7: frontDoor.closingTime: ", "'1:30'"),
        ("8: frontDoor.isOpen: ", "twice"),
        ("10: name: ", "twice"),
    ]
    assert [line for line, ends in zip(found, expected, strict=True) if not is_between(line, *ends)] == []


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("name: [", "YAML"),
        ("- a\n", "(name, workers, goods, licence, frontDoor), got a list"),
        ("frontDoor: shut\n", "(isOpen, closingTime), got the text 'shut'"),
        ("goods: bread\n", "got the text 'bread'"),
        ("name:\n", "got nothing"),
        ("a: {}\n---\nb: {}\n", "YAML"),
        ("defaults: &d {name: x}\n<<: *d\n", "<<: "),
        ("1: 2\n", "1: unknown key"),
        ("? [a]\n: 1\n", "a list: unknown key"),
        ("name: &a [*a]\n", "got a list"),
        ("[" * 5000, "YAML"),
        ("name: !!python/object:os.system x\n", "got 'x'"),
        ("name: \x00\n", "YAML"),
    ],
)
def test_a_file_that_is_not_a_config_is_rejected(text: str, named: str, tmp_path: Path) -> None:
    assert any(named in problem for problem in problems(text, tmp_path))


def test_the_value_of_an_unknown_key_is_not_quoted_because_it_may_be_a_secret(tmp_path: Path) -> None:
    found = problems("token: hunter2\nfrontDoor:\n  key: {secret: hunter2}\n", tmp_path, SHOP_TOKEN="hunter2")

    assert len(found) == 3
    assert "hunter2" not in "".join(found)


def test_the_environment_wins_over_the_file_and_flags_over_both(tmp_path: Path) -> None:
    file = tmp_path / "shop.yaml"
    file.write_text("name: x\nworkers: 3\nlicence: wall\n")
    environment = {
        "SHOP_NAME": "y",
        "SHOP_GOODS": "a, b",
        "SHOP_LICENCE": "door",
        "SHOP_FRONT_DOOR_IS_OPEN": "false",
        "HOME": "/",
    }

    found = load_config(Shop, file, environment, PREFIX, {"licence": ["floor"]})

    assert found.config == Shop("y", 3, ("a", "b"), Path("floor"), Door(is_open=False))
    assert found.sources == {
        "name": "SHOP_NAME",
        "goods": "SHOP_GOODS",
        "licence": "--licence",
        "frontDoor.isOpen": "SHOP_FRONT_DOOR_IS_OPEN",
    }


def test_an_empty_variable_is_an_empty_list_or_no_value(tmp_path: Path) -> None:
    assert read("licence: wall\n", tmp_path, SHOP_GOODS="", SHOP_LICENCE="") == Shop(goods=(), licence=None)


def test_an_unknown_or_invalid_variable_is_reported_by_name(tmp_path: Path) -> None:
    found = problems("", tmp_path, SHOP_WORKER="3", SHOP_WORKERS="many", SHOP_GOODS="a,B")

    expected = [("SHOP_GOODS: ", "'B'"), ("SHOP_WORKER: ", "SHOP_WORKERS?"), ("SHOP_WORKERS: ", "'many'")]
    assert [line for line, ends in zip(found, expected, strict=True) if not is_between(line, *ends)] == []


def test_the_variables_of_a_service_with_the_name_of_the_process_are_ignored(tmp_path: Path) -> None:
    links = ("SERVICE_HOST", "SERVICE_PORT", "SERVICE_PORT_HTTP", "PORT", "PORT_8080_TCP", "PORT_8080_TCP_ADDR")

    found = read("", tmp_path, **{f"SHOP_{link}": "tcp://10.0.0.1:8080" for link in links})

    assert found == Shop()


def test_an_invalid_combination_is_reported_with_the_source_of_its_value(tmp_path: Path) -> None:
    closed = "workers: 6\nfrontDoor: {isOpen: false}\n"

    assert problems(closed, tmp_path)[0].endswith("workers: expected at most 5 behind a closed door")
    assert problems(closed, tmp_path, SHOP_WORKERS="7") == ["SHOP_WORKERS: expected at most 5 behind a closed door"]
    assert flag_problems(closed, tmp_path, workers=["8"]) == ["--workers: expected at most 5 behind a closed door"]
    [found] = problems("workers: 60\nfrontDoor: {isOpen: false}\n", tmp_path)
    assert is_between(found, "1: workers: ", "'60'")


def test_a_file_that_cannot_be_read_is_reported_by_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"{tmp_path / 'none'}"):
        load_config(Shop, tmp_path / "none", {}, PREFIX)


@pytest.mark.parametrize("kind", [ManagerConfig, ControllerManagerConfig, RuntimeApiConfig])
def test_every_key_of_a_process_has_a_variable_of_its_own_that_no_service_takes(kind: type) -> None:
    variables = [key.variable for key in layout(kind).every_key()]

    assert len(variables) == len(set(variables))
    assert not {"PORT", "SERVICE_HOST", "SERVICE_PORT"} & {*variables}
