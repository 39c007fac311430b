"""The runtime control plane of a GPU cloud on Kubernetes, and the reconciler library under it.

The package is a house. A room imports only rooms below it, and rooms on one floor are strangers::

    processes | testing      front doors, one file a process  |  the test kit for users
    reconcilers | web        one package or module per kind  |  REST handlers, one file a resource
    service                  use cases without HTTP
    control | desired        the embeddable reconciler library  |  pure functions: spec -> child objects
    api | kube               resource types  |  the wire: credentials, client, watch, errors
    meta | aio               object metadata, conditions, codec  |  clock, tasks, backoff

The library is `control` with `kube`, `meta` and `aio`; it does not know that GPUs exist.
"""

__version__ = "0.1.0"
