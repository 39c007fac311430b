from gpuruntime.kube.builtin.rbac import ClusterRole, PolicyRule, RoleBinding, RoleRef, Subject
from gpuruntime.meta.codec import decode, encode
from gpuruntime.meta.objects import ObjectMeta


def test_rules_are_written_with_the_names_of_the_api_and_the_core_group_is_kept() -> None:
    rules = (
        PolicyRule(("get",), api_groups=("",), resources=("pods", "pods/log"), resource_names=("x",)),
        PolicyRule(("get",), non_resource_urls=("/metrics",)),
    )

    encoded = encode(ClusterRole(ObjectMeta(name="r"), rules))

    assert encoded["rules"] == [
        {"verbs": ["get"], "apiGroups": [""], "resources": ["pods", "pods/log"], "resourceNames": ["x"]},
        {"verbs": ["get"], "nonResourceURLs": ["/metrics"]},
    ]
    assert decode(ClusterRole, encoded).rules == rules


def test_a_binding_joins_a_role_and_its_subjects() -> None:
    role = RoleRef("Role", "r", "rbac.authorization.k8s.io")
    binding = RoleBinding(ObjectMeta(name="b", namespace="ns"), role, (Subject("ServiceAccount", "sa", "ns"),))

    encoded = encode(binding)

    assert encoded["roleRef"] == {"kind": "Role", "name": "r", "apiGroup": "rbac.authorization.k8s.io"}
    assert encoded["subjects"] == [{"kind": "ServiceAccount", "name": "sa", "namespace": "ns"}]
    assert decode(RoleBinding, encoded) == binding
