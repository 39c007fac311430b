"""Normalised states, and descriptions of their differences."""

from typing import Any

from gpuruntime.testing.crashing.normalisation import differences, normalise

UIDS = ("11111111-2222-3333-4444-555555555555", "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee")


def config_map(name: str = "a", uid: str = UIDS[0], **fields: Any) -> dict[str, Any]:
    metadata = {
        "name": name,
        "namespace": "main-1f2e",
        "uid": uid,
        "resourceVersion": "7",
        **fields.pop("metadata", {}),
    }
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, **fields}


def plain(*objects: dict[str, Any], ignored_fields: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    return normalise(objects, {"main": "main-1f2e", "stock": "stock-77aa"}, ignored_fields)


def test_server_set_fields_are_left_out_and_namespaces_are_named_by_role() -> None:
    times = {"creationTimestamp": "2026-01-01T00:00:00Z", "generation": 3, "managedFields": [{}]}

    (found,) = plain(config_map(metadata=times, data={"at": "in stock-77aa"}))

    assert found == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "a", "namespace": "<main>"},
        "data": {"at": "in <stock>"},
    }


def test_a_known_uid_is_replaced_by_its_object_and_any_other_by_a_placeholder() -> None:
    owners = [{"name": "a", "uid": UIDS[0]}, {"name": "gone", "uid": "99999999-2222-3333-4444-555555555555"}]

    _, child = plain(config_map(), config_map("b", UIDS[1], metadata={"ownerReferences": owners}))

    assert [owner["uid"] for owner in child["metadata"]["ownerReferences"]] == ["<uid of ConfigMap a>", "<uid>"]


def test_generated_names_are_replaced_by_their_prefix_everywhere() -> None:
    generated = config_map("child-x7k2p", metadata={"generateName": "child-"})

    _, child = plain(config_map("a", UIDS[1], data={"child": "child-x7k2p"}), generated)
    parent, _ = plain(config_map("a", UIDS[1], data={"child": "child-x7k2p"}), generated)

    assert (parent["data"]["child"], child["metadata"]["name"]) == ("child-*", "child-*")


def test_times_and_generations_are_normalised() -> None:
    status = {
        "observedGeneration": 3,
        "since": "2026-01-01T00:00:00.123456Z",
        "conditions": [{"observedGeneration": 2, "message": "since 2026-01-01T00:00:00Z"}],
    }

    (found,) = plain(config_map(metadata={"generation": 3}, status=status))

    assert found["status"] == {
        "observedGeneration": "current",
        "since": "<time>",
        "conditions": [{"observedGeneration": "old", "message": "since <time>"}],
    }


def test_fields_are_ignored_by_path_also_in_lists_and_maps() -> None:
    service = config_map(spec={"clusterIP": "10.0.0.7", "ports": [{"port": 80, "nodePort": 31234}], "kept": 1})

    (found,) = plain({**service, "data": {"a": {"x": 1, "y": 2}}}, ignored_fields=("data.*.x", "spec.kept"))

    assert (found["spec"], found["data"]) == ({"ports": [{"port": 80}]}, {"a": {"y": 2}})


def test_replacements_apply_to_names_as_well() -> None:
    units = [config_map(f"pool-{digest}-1", data={"unit": f"pool-{digest}-1"}) for digest in ("0a1b", "ffee")]

    one, other = (normalise([unit], {"main": "main-1f2e"}, (), [("pool-[0-9a-f]{4}", "pool-*")]) for unit in units)

    assert one == other
    assert one[0]["metadata"]["name"] == "pool-*-1"


def test_replacements_are_applied_last_and_in_order() -> None:
    words = f"{UIDS[0]} at 2026-01-02T03:04:05Z in main-1f2e: pool-0a1b"
    pairs = [("pool-[0-9a-f]{4}", "pool-*"), (r"pool-\*", "a pool"), ("<uid of ConfigMap a>", "itself")]

    (found,) = normalise([config_map("a", data={"words": words})], {"main": "main-1f2e"}, (), pairs)

    assert found["data"] == {"words": "itself at <time> in <main>: a pool"}


def test_built_in_objects_and_the_desired_hash_are_left_out() -> None:
    marks = {"widgets.example.org/desired-hash": "0123456789abcdef", "kept": "yes"}

    (found,) = plain(config_map("kube-root-ca.crt"), config_map("a", UIDS[1], metadata={"annotations": marks}))

    assert found["metadata"]["annotations"] == {"kept": "yes"}


def test_the_order_depends_on_the_objects_only() -> None:
    one, two = (config_map(f"child-{x}", metadata={"generateName": "child-"}, data={"n": x}) for x in ("zzz", "aaa"))

    assert plain(one, config_map("b", UIDS[1]), two) == plain(two, one, config_map("b", UIDS[1]))


def test_equal_states_have_no_difference() -> None:
    assert differences(plain(config_map()), plain(config_map())) == ""


def test_surplus_and_missing_objects_are_counted_and_others_are_compared() -> None:
    before = plain(config_map("a", data={"x": "1"}), config_map("b", UIDS[1]))
    after = plain(config_map("a", data={"x": "2"}))

    text = differences(before, after)

    assert text.splitlines()[0] == "ConfigMap <main>/b: 0 instead of 1"
    assert [line for line in text.splitlines()[3:] if line[0] in "+-"] == ['-  "x": "1"', '+  "x": "2"']


def test_custom_states_are_compared_as_text() -> None:
    text = differences({"units": 3}, {"units": 4})

    assert [line for line in text.splitlines()[2:] if line[0] in "+-"] == ['- "units": 3', '+ "units": 4']
