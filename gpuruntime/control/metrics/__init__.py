"""Prometheus collectors for controllers, queues, informers, leader election, events, the client and the event loop."""
