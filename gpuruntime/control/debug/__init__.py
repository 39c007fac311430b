"""Debug pages: queues, informers and tasks."""
