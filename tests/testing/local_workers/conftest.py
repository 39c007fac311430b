"""The namespace of a test of local workers is kept: deleting it takes longer than the test."""

from tests.kept_namespaces import kube_namespace

__all__ = ["kube_namespace"]
