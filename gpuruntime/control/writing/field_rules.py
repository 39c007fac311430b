"""What the API server does to fields, and which lists and maps are one owner's: the tables behind `comparing`.

A place is the name of a field, or of a field and the one that it is in ("spec.selector"). The elements of a list are at
the place of the list.
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

# Groups whose defaulting is known, so that what we leave out of their objects can be told from what others put in.
BUILT_IN_GROUPS: Final = frozenset({"", "apps", "batch", "networking.k8s.io", "rbac.authorization.k8s.io"})

# How elements of a list are told apart; the first alternative that all elements have counts. A list that is not here,
# or that has an element without its key or twice, is compared element by element.
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

# Init containers run in order, and a variable may use those before it. Elsewhere the order means nothing.
ORDERED: Final = frozenset({"env", "initContainers"})

# Lists of built-in kinds that have exactly the elements that we desire, none if we desire none.
OWNED_LISTS: Final = frozenset(
    {
        *("containers", "initContainers", "volumes", "tolerations", "spec.imagePullSecrets"),
        *("command", "args", "env", "envFrom", "ports", "volumeMounts", "volumeDevices"),
        *("spec.ingress", "spec.egress", "rules", "subjects"),
    }
)

# Maps of built-in kinds, and elements of their lists, in which the server adds nothing: every key is ours. A selector
# that somebody adds a key to selects something else.
CLOSED: Final = frozenset(
    {
        *("env", "envFrom", "tolerations", "volumeMounts", "volumeDevices"),
        *("data", "binaryData", "rules", "spec.selector", "spec.podSelector", "matchLabels", "matchExpressions"),
        *("spec.ingress", "spec.egress", "ingress.from", "egress.to", "ingress.ports", "egress.ports"),
        *("from.ipBlock", "from.podSelector", "from.namespaceSelector"),
        *("to.ipBlock", "to.podSelector", "to.namespaceSelector"),
    }
)

# Lists that anybody may add to.
EXTENDED_BY_OTHERS: Final = frozenset({"metadata.finalizers", "metadata.ownerReferences"})
# Lists of a pod that admission adds to: the token of its account, tolerations of taints, secrets of its account.
EXTENDED_BY_ADMISSION: Final = frozenset({"imagePullSecrets", "tolerations", "volumeMounts", "volumes"})

# Maps whose keys are the users': a key with an empty value is there. The map itself is not on the wire when empty.
FREE_MAPS: Final = frozenset(
    {
        *("annotations", "labels", "matchLabels", "nodeSelector", "parameters", "selector"),
        *("binaryData", "data", "stringData", "capacity", "hard", "limits", "overhead", "requests"),
    }
)
# Structs for which {} and absence are the same. Elsewhere they are not: `emptyDir: {}` is a volume, and a peer of a
# network policy with `namespaceSelector: {}` is everybody.
OMITTED_STRUCTS: Final = frozenset({"metadata", "resources", "securityContext", "strategy", "updateStrategy"})
# Fields for which false, 0 and "" are the same as absence, and are how the server says so. For others they are not:
# without `automountServiceAccountToken: false`, `runAsUser: 0`, `ttlSecondsAfterFinished: 0` and
# `storageClassName: ""` an object means something else.
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
