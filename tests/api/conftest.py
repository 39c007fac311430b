"""The product's kinds on the cluster of the run."""

from tests.product_scenes import product

__all__ = ["product"]
