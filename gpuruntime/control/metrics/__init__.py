"""Prometheus metrics of a manager, under the names of controller-runtime and client-go where they exist.

`Histogram` is public, for collectors of your own: observing a value costs about as much as incrementing two integers.
Register them in `manager.observability.registry`.
"""

from gpuruntime.control.histogram import REQUEST_BUCKETS, Histogram

__all__ = ["REQUEST_BUCKETS", "Histogram"]
