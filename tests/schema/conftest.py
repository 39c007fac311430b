"""The library's tests leave data in their namespaces, which no other test reads."""

from tests.kept_namespaces import kube_namespace

__all__ = ["kube_namespace"]
