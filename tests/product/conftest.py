from tests.product_scenes import product, stock_namespace

__all__ = ["product", "stock_namespace"]
