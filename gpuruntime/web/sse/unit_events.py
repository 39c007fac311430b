"""What a follower of units is sent: the events by their names, and what their data is."""

from typing import Final

from gpuruntime.meta import FrozenDict
from gpuruntime.web.resources.unit_views import UnitView
from gpuruntime.web.server.route import Events
from gpuruntime.web.sse.events import ResetView

__all__ = ["UNIT_EVENTS"]

UNIT_EVENTS: Final[Events] = FrozenDict(
    {"reset": ResetView, "added": UnitView, "modified": UnitView, "deleted": UnitView, "synced": ResetView}
)
