"""The product's CRDs, installed on the cluster of the run."""

from tests.product_scenes import product

__all__ = ["product"]
