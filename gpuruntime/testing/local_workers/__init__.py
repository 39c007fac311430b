"""Workers of functions on fake nodes: a real sidecar and a real program on this machine for each pod.

The fixture `kube_local_workers` runs them in a test, and `./hack/up` as a process.
"""

from gpuruntime.testing.local_workers.local_workers import LocalWorkers
from gpuruntime.testing.local_workers.plan import LOCAL_SIDECAR

__all__ = ["LOCAL_SIDECAR", "LocalWorkers"]
