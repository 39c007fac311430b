"""Fixtures of the product for the tests of its reconcilers."""

from tests.product_scenes import product, stock_namespace

__all__ = ["product", "stock_namespace"]
