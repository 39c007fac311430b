from gpuruntime.kube.builtin.apiextensions import CustomResourceDefinition
from gpuruntime.meta.codec import decode, encode
from gpuruntime.meta.conditions import is_true


def test_a_definition_keeps_its_schema_as_it_is() -> None:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "default": None}}
    wire = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.org"},
        "spec": {
            "group": "example.org",
            "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["w"]},
            "scope": "Namespaced",
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema, "subresources": {}}],
            "conversion": {"strategy": "None"},
        },
        "status": {
            "conditions": [{"type": "Established", "status": "True"}],
            "acceptedNames": {"plural": "widgets", "kind": "Widget"},
            "storedVersions": ["v1"],
        },
    }

    definition = decode(CustomResourceDefinition, wire)

    assert definition.spec.names.short_names == ("w",)
    assert definition.spec.versions[0]["name"] == "v1"
    assert is_true(definition.status.conditions, "Established")
    assert encode(definition) == wire
