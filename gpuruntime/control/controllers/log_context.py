"""Which run a log line belongs to."""

import logging

from gpuruntime.control.controllers.controller import current_context

__all__ = ["ReconcileFields"]


class ReconcileFields(logging.Filter):
    """Adds controller, key and reconcile_id to every line that anybody logs inside a run. Put it on a handler."""

    def filter(self, record: logging.LogRecord) -> bool:
        current = current_context.get()
        if current is not None:
            record.controller, record.key, record.reconcile_id = current
        return True
