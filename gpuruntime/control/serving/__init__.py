"""The HTTP server in the manager's loop: listener, connections, limits.

`ERROR_RESPONSE` and `loopback_only` are public, for applications that `manager.serve` serves; so is `serving`, which
serves one without a manager.
"""

from gpuruntime.control.serving.bad_requests import ERROR_RESPONSE
from gpuruntime.control.serving.http_site import serving
from gpuruntime.control.serving.loopback import loopback_only

__all__ = ["ERROR_RESPONSE", "loopback_only", "serving"]
