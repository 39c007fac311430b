"""The world of the product's use cases, for the endpoints in front of them."""

from tests.service.conftest import kube_namespace, observer, product, stock_namespace, world

__all__ = ["kube_namespace", "observer", "product", "stock_namespace", "world"]
