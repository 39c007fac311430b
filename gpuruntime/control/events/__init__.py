"""Kubernetes Events about the work: series, combined, within a budget, never in the way."""
