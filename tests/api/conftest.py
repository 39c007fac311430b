"""The product's CRDs, installed on the cluster of the run."""

from tests.product_scenes import kube_namespace, product

__all__ = ["kube_namespace", "product"]
