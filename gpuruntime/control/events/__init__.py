"""Kubernetes Events: series, aggregation and a spam filter, delivered in the background."""
