"""The embeddable reconciler library: controller-runtime's guarantees in asyncio Python. It knows no product."""
