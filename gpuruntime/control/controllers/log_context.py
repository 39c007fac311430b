"""Log fields of the current run."""

import logging

from gpuruntime.control.controllers.controller import current_context, run_fields

__all__ = ["ReconcileFields", "add_log_fields"]


class ReconcileFields(logging.Filter):
    """A logging filter that adds controller, key and reconcile_id to every line of a run. Add it to a handler."""

    def filter(self, record: logging.LogRecord) -> bool:
        current = current_context.get()
        if current is not None:
            record.controller, record.key, record.reconcile_id = current
        for name, value in (run_fields.get() or {}).items():
            if not hasattr(record, name):
                setattr(record, name, value)
        return True


def add_log_fields(**fields: str) -> None:
    """Add fields to every further line of the run that this is called in, that of its failure included.

    For what a reconciler learns about its key, such as the id of a request. Outside of runs it does nothing.
    """
    known = run_fields.get()
    if known is not None:
        known.update(fields)
