"""How the API server treats fields, and which lists and maps have a single owner: the tables behind `comparison`.

An entry is the name of a field, or of a field with its parent ("spec.selector"). It applies to the elements of a list,
too.
"""

from collections.abc import Mapping
from typing import Final

__all__ = [
    "BUILT_IN_GROUPS",
    "CLOSED",
    "EXTENDED_BY_ADMISSION",
    "EXTENDED_BY_OTHERS",
    "FREE_MAPS",
    "INT_OR_STRING",
    "KEY_DEFAULTS",
    "LEFT_TO_SERVER",
    "MERGE_KEYS",
    "OMITTED_STRUCTS",
    "OMITTED_ZEROS",
    "ORDERED",
    "OWNED_LISTS",
    "QUANTITIES",
    "QUANTITY_MAPS",
]

# Groups whose defaulting is known, so that defaults can be distinguished from additions of others.
BUILT_IN_GROUPS: Final = frozenset({"", "apps", "batch", "networking.k8s.io", "rbac.authorization.k8s.io"})

# Merge keys of list elements; the first alternative that all elements have applies. A list that is not here, or that
# has an element without a key or with a duplicate one, is compared element by element.
MERGE_KEYS: Final[Mapping[str, tuple[tuple[str, ...], ...]]] = {
    "containers": (("name",),),
    "env": (("name",),),
    "imagePullSecrets": (("name",),),
    "initContainers": (("name",),),
    "ownerReferences": (("uid",),),
    "ports": (("containerPort", "protocol"), ("port", "protocol")),
    "volumeDevices": (("devicePath",),),
    "volumeMounts": (("mountPath",),),
    "volumes": (("name",),),
}
KEY_DEFAULTS: Final[Mapping[str, str]] = {"protocol": "TCP"}

# Init containers run in order, and a variable may refer to earlier ones. Other lists are unordered.
ORDERED: Final = frozenset({"env", "initContainers"})

# Lists of built-in kinds that must have exactly the desired elements.
OWNED_LISTS: Final = frozenset(
    {
        *("containers", "initContainers", "volumes", "tolerations", "spec.imagePullSecrets"),
        *("command", "args", "env", "envFrom", "ports", "volumeMounts", "volumeDevices"),
        *("spec.ingress", "spec.egress", "rules", "subjects"),
    }
)

# Maps of built-in kinds, and elements of their lists, to which the server adds nothing: every key must be desired. A
# selector with an additional key selects something else.
CLOSED: Final = frozenset(
    {
        *("env", "envFrom", "tolerations", "volumeMounts", "volumeDevices"),
        *("data", "binaryData", "rules", "spec.selector", "spec.podSelector", "matchLabels", "matchExpressions"),
        *("spec.ingress", "spec.egress", "ingress.from", "egress.to", "ingress.ports", "egress.ports"),
        *("from.ipBlock", "from.podSelector", "from.namespaceSelector"),
        *("to.ipBlock", "to.podSelector", "to.namespaceSelector"),
    }
)

# Lists to which any writer may add.
EXTENDED_BY_OTHERS: Final = frozenset({"metadata.finalizers", "metadata.ownerReferences"})
# Lists of a pod to which admission adds: the service account token, tolerations of taints, image pull secrets.
EXTENDED_BY_ADMISSION: Final = frozenset({"imagePullSecrets", "tolerations", "volumeMounts", "volumes"})

# Maps with user-defined keys: a key with an empty value is present. An empty map itself is omitted on the wire.
FREE_MAPS: Final = frozenset(
    {
        *("annotations", "labels", "matchLabels", "nodeSelector", "parameters", "selector"),
        *("binaryData", "data", "stringData", "capacity", "hard", "limits", "overhead", "requests"),
    }
)
# Structs for which {} equals absence. Elsewhere it does not: `emptyDir: {}` is a volume, and `namespaceSelector: {}` in
# a peer of a network policy selects all namespaces.
OMITTED_STRUCTS: Final = frozenset({"metadata", "resources", "securityContext", "strategy", "updateStrategy"})
# Fields for which false, 0 and "" equal absence, because the server omits them. For other fields they do not:
# `automountServiceAccountToken: false`, `runAsUser: 0`, `ttlSecondsAfterFinished: 0` and `storageClassName: ""` have a
# meaning of their own.
OMITTED_ZEROS: Final = frozenset(
    {
        *("hostIPC", "hostNetwork", "hostPID", "hostIP", "hostPort", "hostname", "nodeName", "subdomain"),
        *("stdin", "stdinOnce", "tty", "workingDir", "prefix", "value", "initialDelaySeconds"),
        *("readOnly", "subPath", "subPathExpr", "medium", "fsType"),
        *("minReadySeconds", "paused", "priorityClassName", "serviceAccountName"),
        *("externalName", "loadBalancerIP", "publishNotReadyAddresses", "name", "description", "globalDefault"),
    }
)
# Fields for which 0 and "" ask the server to choose.
LEFT_TO_SERVER: Final = frozenset(
    {
        *("clusterIP", "healthCheckNodePort", "nodePort", "targetPort", "volumeName", "protocol", "sessionAffinity"),
        *("imagePullPolicy", "terminationMessagePath", "terminationMessagePolicy", "type", "scheme", "apiGroup"),
        *("periodSeconds", "timeoutSeconds", "successThreshold", "failureThreshold", "divisor", "apiVersion"),
        *("restartPolicy", "dnsPolicy", "schedulerName"),
    }
)

INT_OR_STRING: Final = frozenset({"maxSurge", "maxUnavailable", "minAvailable", "port", "targetPort"})
QUANTITIES: Final = frozenset({"averageValue", "divisor", "sizeLimit"})
QUANTITY_MAPS: Final = frozenset({"capacity", "hard", "limits", "overhead", "requests"})
