"""What a follower of units is sent: the events by their names, and what their data is."""

from typing import Final

from gpuruntime.meta.frozen_mapping import FrozenDict
from gpuruntime.web.live_events import ResetView
from gpuruntime.web.routing import Events
from gpuruntime.web.views_units import UnitView

__all__ = ["UNIT_EVENTS"]

UNIT_EVENTS: Final[Events] = FrozenDict(
    {"reset": ResetView, "added": UnitView, "modified": UnitView, "deleted": UnitView, "synced": ResetView}
)
