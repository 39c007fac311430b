"""The section of NATS: from keys to the options of a connection."""

from pathlib import Path

import pytest
from attrs import frozen

from gpuruntime.bus import BusCredentials, BusOptions, BusTls
from gpuruntime.processes.config.keys import section
from gpuruntime.processes.config.load import ConfigError, load_config
from gpuruntime.processes.config.nats_section import NatsSection


@frozen
class Config:
    nats: NatsSection = section(NatsSection)


def load(text: str, tmp_path: Path) -> NatsSection:
    file = tmp_path / "config.yaml"
    file.write_text(text)
    return load_config(Config, file, {}, "NONE_").config.nats


def test_without_a_url_there_is_no_nats(tmp_path: Path) -> None:
    assert load("{}", tmp_path).options("api", "_INBOX.api") is None


def test_a_url_without_a_port_gets_the_usual_one_and_nothing_is_encrypted(tmp_path: Path) -> None:
    found = load("nats: {urls: ['nats://a', 'nats://b:1'], userFile: u, passwordFile: p}", tmp_path)

    assert found.options("api", "_INBOX.api") == BusOptions(
        ("nats://a:4222", "nats://b:1"), "api", BusCredentials(Path("u"), Path("p")), None, "_INBOX.api"
    )


@pytest.mark.parametrize(
    ("text", "tls"),
    [
        ("nats: {urls: ['tls://a:1']}", BusTls()),
        ("nats: {urls: ['nats://a:1'], caFile: c}", BusTls(Path("c"))),
        ("nats: {urls: ['nats://a:1'], certFile: c, keyFile: k}", BusTls(None, Path("c"), Path("k"))),
    ],
)
def test_a_url_or_a_file_of_tls_requires_tls(text: str, tls: BusTls, tmp_path: Path) -> None:
    options = load(text, tmp_path).options("api", "_INBOX.api")

    assert options is not None
    assert options.tls == tls


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("nats: {urls: ['http://a:1']}", r"nats\.urls.*expected .*the URL of a NATS server .*got 'http://a:1'"),
        ("nats: {urls: ['nats://user:secret@a:1']}", r"nats\.urls.*without credentials"),
        ("nats: {urls: ['nats://a:99999']}", r"nats\.urls"),
        ("nats: {userFile: u}", r"nats\.userFile: expected serverless\.nats\.passwordFile with it"),
        ("nats: {keyFile: u}", r"nats\.keyFile: expected serverless\.nats\.certFile with it"),
        (
            "nats: {tokenFile: t, credentialsFile: c}",
            r"nats\.credentialsFile: expected one kind of credentials, got tokenFile and credentialsFile",
        ),
    ],
)
def test_an_invalid_section_is_refused_with_the_name_of_the_key(text: str, named: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=named):
        load(text, tmp_path)
