"""Prometheus metrics of a manager, under controller-runtime's and client-go's names where they exist."""
