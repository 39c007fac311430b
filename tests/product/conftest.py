from tests.product_scenes import kube_namespace, product, stock_namespace

__all__ = ["kube_namespace", "product", "stock_namespace"]
