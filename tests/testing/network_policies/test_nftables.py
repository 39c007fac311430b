"""The table of a node, as text and as the kernel's own program reads it."""

import os
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuruntime.testing.network_policies.nftables import render
from gpuruntime.testing.network_policies.rules import Block, PodRules, PortRange, Rule
from tests.programs import require_program

BLOCKS = st.builds(
    Block,
    st.sampled_from(
        ["198.18.1.2/32", "198.18.1.3/32", "10.0.0.0/8", "0.0.0.0/0", "10.0.0.0/32", "fd00::1/128", "::/0"]
    ),
).map(lambda block: Block(block.cidr, ("10.1.0.0/16",) if block.cidr == "10.0.0.0/8" else ()))
RANGES = st.builds(
    lambda protocol, first, length: PortRange(protocol, first, min(first + length, 65535)),
    st.sampled_from(["TCP", "UDP", "SCTP"]),
    st.integers(0, 65535),
    st.integers(0, 100),
)
RULES = st.builds(
    Rule,
    st.none() | st.sets(BLOCKS, min_size=1).map(lambda found: tuple(sorted(found))),
    st.none() | st.sets(RANGES, min_size=1).map(lambda found: tuple(sorted(found))),
)
DIRECTIONS = st.none() | st.lists(RULES, max_size=3).map(tuple)
PODS = st.lists(st.tuples(DIRECTIONS, DIRECTIONS), max_size=3).map(
    lambda found: [
        PodRules(f"red/pod-{number}", (f"198.18.0.{number}", f"fd00::{number}"), ingress, egress)
        for number, (ingress, egress) in enumerate(found)
    ]
)


def test_each_direction_of_a_pod_has_a_chain() -> None:
    limited = PodRules(
        "red/web",
        ("198.18.1.2",),
        (
            Rule(
                (Block("10.0.0.0/8", ("10.1.0.0/16",)), Block("198.18.1.3/32"), Block("198.18.1.4/32")),
                (PortRange("TCP", 80, 80), PortRange("TCP", 81, 90), PortRange("UDP")),
            ),
        ),
        (),
    )

    assert render([limited]) == (
        "table inet gpuruntime-network-policies\n"
        "delete table inet gpuruntime-network-policies\n"
        "table inet gpuruntime-network-policies {\n"
        "\tchain forward {\n"
        "\t\ttype filter hook forward priority filter; policy accept;\n"
        "\t\tct state established,related accept\n"
        "\t\tip saddr vmap { 198.18.1.2 : jump egress-198.18.1.2 }\n"
        "\t\tip daddr vmap { 198.18.1.2 : jump ingress-198.18.1.2 }\n"
        "\t}\n"
        "\tchain egress-198.18.1.2 {\n"
        '\t\tcomment "red/web"\n'
        "\t\tdrop\n"
        "\t}\n"
        "\tchain ingress-198.18.1.2 {\n"
        '\t\tcomment "red/web"\n'
        "\t\tip saddr { 198.18.1.3, 198.18.1.4 } tcp dport { 80-90 } return\n"
        "\t\tip saddr { 198.18.1.3, 198.18.1.4 } udp dport { 0-65535 } return\n"
        "\t\tip saddr 10.0.0.0/8 ip saddr != 10.1.0.0/16 tcp dport { 80-90 } return\n"
        "\t\tip saddr 10.0.0.0/8 ip saddr != 10.1.0.0/16 udp dport { 0-65535 } return\n"
        "\t\tdrop\n"
        "\t}\n"
        "}\n"
    )


def test_a_direction_without_policies_has_no_chain() -> None:
    script = render([PodRules("red/web", ("198.18.1.2",), (Rule(),), None)])

    assert "egress" not in script
    assert "\t\treturn\n" in script


@settings(max_examples=25)
@given(PODS)
def test_nft_loads_every_table_twice(pods: list[PodRules]) -> None:
    nft = require_program("nft")
    if os.geteuid() != 0:
        pytest.skip("only root has network namespaces of its own")
    script = render(pods)

    command = ["unshare", "--net", "--", nft, "-f", "-"]
    done = subprocess.run(command, input=script * 2, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, ""), script
