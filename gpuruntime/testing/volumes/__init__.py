"""Volumes for PersistentVolumeClaims: a provisioner, and a backend that keeps the data in directories of a node."""
