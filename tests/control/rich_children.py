"""Children with as many fields as an operator might set, in notations that an API server normalises."""

from typing import Any

from gpuruntime.kube.builtin.apps import Deployment
from gpuruntime.kube.builtin.batch import Job
from gpuruntime.kube.builtin.core import ConfigMap, Secret, Service, ServiceAccount
from gpuruntime.kube.builtin.networking import NetworkPolicy
from gpuruntime.kube.builtin.pods import Pod
from gpuruntime.kube.builtin.rbac import Role, RoleBinding
from gpuruntime.kube.builtin.scheduling import PriorityClass
from gpuruntime.kube.builtin.volumes import PersistentVolumeClaim
from gpuruntime.meta.codec import decode
from gpuruntime.meta.objects import TypedObject

__all__ = ["NAMESPACED", "child", "priority_class"]

_POD_SPEC: dict[str, Any] = {
    "hostNetwork": False,
    "automountServiceAccountToken": False,
    "terminationGracePeriodSeconds": 0,
    "priorityClassName": "",
    "nodeSelector": {"gpu": ""},
    "securityContext": {},
    "imagePullSecrets": [{"name": "registry"}],
    "tolerations": [
        {"key": "nvidia.com/gpu", "operator": "Exists"},
        {"key": "spot", "tolerationSeconds": 0, "effect": "NoExecute"},
    ],
    "initContainers": [
        {"name": "first", "image": "init:1", "args": ["--all"], "resources": {}},
        {"name": "second", "image": "init:2", "restartPolicy": "Always"},
    ],
    "containers": [
        {
            "name": "web",
            "image": "web:1",
            "command": ["serve"],
            "args": ["--port", "8080"],
            "env": [
                {"name": "EMPTY", "value": ""},
                {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
                {"name": "CPUS", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
                {"name": "URL", "value": "http://$(NODE)"},
            ],
            "envFrom": [{"configMapRef": {"name": "settings"}}, {"prefix": "S_", "secretRef": {"name": "secrets"}}],
            "ports": [
                {"containerPort": 8080, "name": "http"},
                {"containerPort": 8080, "protocol": "UDP", "name": "quic"},
            ],
            "resources": {
                "limits": {"cpu": "1000m", "memory": "0.5Gi", "nvidia.com/gpu": 1},
                "requests": {"cpu": "0.5", "memory": "536870912"},
            },
            "volumeMounts": [
                {"name": "scratch", "mountPath": "/scratch", "readOnly": False},
                {"name": "config", "mountPath": "/etc/config", "readOnly": True, "subPath": ""},
            ],
            "readinessProbe": {"httpGet": {"port": "http"}, "initialDelaySeconds": 0, "periodSeconds": 0},
            "lifecycle": {"preStop": {"exec": {"command": ["sleep", "1"]}}},
            "securityContext": {"runAsUser": 0, "allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        },
        {"name": "side", "image": "side:1", "imagePullPolicy": "", "tty": False},
    ],
    "volumes": [
        {"name": "scratch", "emptyDir": {"sizeLimit": "1024Mi"}},
        {"name": "memory", "emptyDir": {}},
        {"name": "config", "configMap": {"name": "settings", "items": [{"key": "a", "path": "a"}]}},
        {"name": "token", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}},
    ],
    "affinity": {
        "podAntiAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {
                    "weight": 1,
                    "podAffinityTerm": {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}}},
                }
            ]
        }
    },
    "topologySpreadConstraints": [
        {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {}}
    ],
}
_TEMPLATE: dict[str, Any] = {"metadata": {"labels": {"app": "web"}, "annotations": {"note": ""}}, "spec": _POD_SPEC}
_ONCE: dict[str, Any] = {**_TEMPLATE, "spec": {**_POD_SPEC, "restartPolicy": "Never"}}

NAMESPACED: dict[str, tuple[type[TypedObject], dict[str, Any]]] = {
    "deployment": (
        Deployment,
        {
            "spec": {
                "replicas": 0,
                "paused": False,
                "minReadySeconds": 0,
                "selector": {"matchLabels": {"app": "web"}},
                "strategy": {"rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 1}},
                "template": _TEMPLATE,
            }
        },
    ),
    "deployment-of-defaults": (
        Deployment,
        {
            "spec": {
                "strategy": {},
                "selector": {"matchLabels": {"app": "plain"}, "matchExpressions": []},
                "template": {
                    "metadata": {"labels": {"app": "plain"}},
                    "spec": {"containers": [{"name": "web", "image": "web", "resources": {"limits": {}}}]},
                },
            }
        },
    ),
    "service": (
        Service,
        {
            "spec": {
                "selector": {"app": "web"},
                "publishNotReadyAddresses": False,
                "ports": [
                    {"name": "http", "port": 80, "targetPort": "http"},
                    {"name": "dns", "port": 53, "protocol": "UDP"},
                    {"name": "dns-tcp", "port": 53},
                ],
            }
        },
    ),
    "service-with-node-ports": (
        Service,
        {
            "spec": {
                "type": "LoadBalancer",
                "externalTrafficPolicy": "Local",
                "selector": {"app": "web"},
                "ports": [{"name": "http", "port": 80, "nodePort": 0}, {"name": "https", "port": 443}],
            }
        },
    ),
    "service-headless": (
        Service,
        {"spec": {"clusterIP": "None", "selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}]}},
    ),
    "config-map": (ConfigMap, {"data": {"a": "1", "value": ""}, "binaryData": {"b": "AAEC"}}),
    "secret": (Secret, {"data": {"a": "YQ=="}, "stringData": {"b": "plain", "c": ""}}),
    "claim": (
        PersistentVolumeClaim,
        {
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "",
                "resources": {"requests": {"storage": "1024Mi"}},
            }
        },
    ),
    "job": (Job, {"spec": {"parallelism": 0, "backoffLimit": 0, "ttlSecondsAfterFinished": 0, "template": _ONCE}}),
    "network-policy": (
        NetworkPolicy,
        {
            "spec": {
                "podSelector": {},
                "policyTypes": ["Ingress", "Egress"],
                "ingress": [
                    {
                        "from": [
                            {"namespaceSelector": {}, "podSelector": {"matchLabels": {"role": ""}}},
                            {"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}},
                        ],
                        "ports": [{"port": 80}, {"port": "http", "protocol": "TCP"}],
                    }
                ],
                "egress": [{"ports": [{"port": 1000, "endPort": 2000}, {"protocol": "UDP"}]}, {}],
            }
        },
    ),
    "role": (
        Role,
        {
            "rules": [
                {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]},
                {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["x"], "verbs": ["get"]},
            ]
        },
    ),
    "role-binding": (
        RoleBinding,
        {
            "roleRef": {"kind": "Role", "name": "role"},
            "subjects": [{"kind": "ServiceAccount", "name": "a", "namespace": "b"}, {"kind": "User", "name": "u"}],
        },
    ),
    "service-account": (
        ServiceAccount,
        {"automountServiceAccountToken": False, "imagePullSecrets": [{"name": "registry"}]},
    ),
    "pod": (Pod, {"spec": {**_POD_SPEC, "automountServiceAccountToken": True, "nodeSelector": {"no-node": ""}}}),
}


def child(name: str, namespace: str, called: str = "") -> TypedObject:
    """The child of this name, with labels and annotations, in a namespace; `called` is another name for it."""
    cls, content = NAMESPACED[name]
    metadata = {
        "name": called or name,
        "namespace": namespace,
        "labels": {"app": "web", "empty": ""},
        "annotations": {"x/y": "z"},
    }
    return decode(cls, {"metadata": metadata, **content})


def priority_class(name: str) -> PriorityClass:
    return decode(
        PriorityClass,
        {"metadata": {"name": name}, "value": 1000, "globalDefault": False, "description": ""},
    )
