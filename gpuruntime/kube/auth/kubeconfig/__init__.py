"""Kubeconfig files: read, merged, and turned into the credentials of a context."""
