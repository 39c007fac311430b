"""Files are merged as kubectl merges them, and every complaint names the place."""

import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpuruntime.kube.auth.credentials import CredentialsError
from gpuruntime.kube.auth.kubeconfig.contexts import from_kubeconfig
from gpuruntime.kube.auth.kubeconfig.files import Field, load


def write(directory: Path, name: str, document: Any) -> Path:
    path = directory / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(document))
    return path


def clusters(**servers: str) -> dict[str, Any]:
    return {"clusters": [{"name": name, "cluster": {"server": server}} for name, server in servers.items()]}


def test_the_first_file_that_names_an_entry_has_it_whole(tmp_path: Path) -> None:
    first = write(tmp_path, "first", clusters(a="https://a1"))
    second = write(
        tmp_path,
        "second",
        {"clusters": [{"name": "a", "cluster": {"server": "https://a2", "tls-server-name": "x"}}, {"name": "b"}]},
    )

    config = load([first, second])

    assert {name: field.value for name, field in config.clusters.items()} == {"a": {"server": "https://a1"}, "b": {}}
    assert config.clusters["b"].file == second


def test_the_first_current_context_that_is_set_wins(tmp_path: Path) -> None:
    files = [
        write(tmp_path, str(i), {"current-context": name} if name is not None else {})
        for i, name in enumerate([None, "", "two", "three"])
    ]

    assert load(files).current_context == "two"


def test_missing_and_empty_files_are_skipped(tmp_path: Path) -> None:
    there = write(tmp_path, "there", clusters(a="https://a"))
    (tmp_path / "empty").touch()

    config = load([tmp_path / "missing", tmp_path / "empty", there, there])

    assert set(config.clusters) == {"a"}
    assert config.files == (tmp_path / "empty", there)


def test_no_file_at_all_is_an_error_that_says_where_was_looked(tmp_path: Path) -> None:
    with pytest.raises(CredentialsError, match=f"{tmp_path}/a, {tmp_path}/b"):
        load([tmp_path / "a", tmp_path / "b"])


def test_a_name_used_twice_in_one_file_is_an_error_that_lists_the_names(tmp_path: Path) -> None:
    entries: list[Any] = [{"name": name, "context": {}} for name in ("b", "a", "b")]
    file = write(tmp_path, "config", {"contexts": entries})

    with pytest.raises(CredentialsError) as caught:
        load([file])

    assert str(caught.value).startswith(f"{file}: contexts[2]: the name 'b' ")
    assert str(caught.value).endswith("a, b")


@pytest.mark.parametrize(
    ("document", "path", "found"),
    [
        ([], "", "list"),
        ({"clusters": {}}, "clusters: ", "dict"),
        ({"clusters": [1]}, "clusters[0]: ", "int"),
        ({"clusters": [{"name": "a"}, {"cluster": {}}]}, "clusters[1]: ", "none"),
        ({"users": [{"name": 7}]}, "users[0].name: ", "int"),
        ({"current-context": ["hush"]}, "current-context: ", "list"),
    ],
)
def test_a_wrong_type_is_an_error_with_file_and_path(tmp_path: Path, document: Any, path: str, found: str) -> None:
    file = write(tmp_path, "config", document)

    with pytest.raises(CredentialsError) as caught:
        load([file])

    assert str(caught.value).startswith(f"{file}: {path}")
    assert str(caught.value).endswith(found)


def test_broken_yaml_is_an_error_with_a_line_and_without_the_text(tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text("users:\n- name: a\n  user: {token: hush\n")

    with pytest.raises(CredentialsError, match="config: line 4: ") as caught:
        load([file])

    assert "hush" not in f"{caught.value}{caught.value.__cause__}"


@pytest.mark.parametrize("content", [b"\xff\xfe\xfa", b"\x00", b"a: !!python/object:os.system {}"])
def test_what_is_no_text_or_no_plain_yaml_is_an_error(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "config").write_bytes(content)

    with pytest.raises(CredentialsError, match=re.escape(f"{tmp_path}/config: ")):
        load([tmp_path / "config"])


def test_a_directory_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CredentialsError, match="Is a directory"):
        load([tmp_path])


def test_dates_stay_text_as_in_json(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("clusters: [{name: a, cluster: {since: 2030-01-01}}]")

    assert load([tmp_path / "config"]).clusters["a"].value == {"since": "2030-01-01"}


def test_inline_data_goes_before_a_file_which_starts_where_the_kubeconfig_is(tmp_path: Path) -> None:
    both = Field(tmp_path / "config", "user", {"client-key": "key.pem", "client-key-data": "aW5s\naW5l"})
    file = Field(tmp_path / "config", "user", {"client-key": "../key.pem", "client-key-data": ""})

    inline, path = both.pem("client-key"), file.pem("client-key")

    assert inline is not None
    assert inline.content == b"inline"
    assert path is not None
    assert path.content == tmp_path / "../key.pem"
    assert Field(tmp_path, "user", {}).pem("client-key") is None


def test_inline_data_that_is_no_base64_is_an_error_that_does_not_quote_it(tmp_path: Path) -> None:
    with pytest.raises(CredentialsError) as caught:
        Field(tmp_path, "users[0].user", {"client-key-data": "hush!"}).pem("client-key")

    assert str(caught.value).startswith(f"{tmp_path}: users[0].user.client-key-data: ")
    assert "hush" not in str(caught.value)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
)
entries = st.lists(values | st.fixed_dictionaries({"name": st.sampled_from("abc")}), max_size=4)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    values | st.fixed_dictionaries({}, optional={"clusters": entries | values, "contexts": entries, "users": values})
)
def test_any_document_is_a_kubeconfig_or_a_credentials_error(tmp_path: Path, document: Any) -> None:
    file = write(tmp_path, "config", document)

    with suppress(CredentialsError):
        assert load([file]).files == (file,)


def test_a_file_may_be_named_by_a_text(tmp_path: Path) -> None:
    context = {"name": "c", "context": {"cluster": "a"}}
    path = write(tmp_path, "config", clusters(a="http://a1") | {"contexts": [context], "current-context": "c"})

    assert from_kubeconfig(str(path)).endpoint == from_kubeconfig(path).endpoint


@pytest.mark.parametrize("path", ["", b"config", 7])
def test_what_is_no_path_is_refused_with_what_to_give(path: Any) -> None:
    with pytest.raises(TypeError, match="None"):
        from_kubeconfig(path)
