"""Volumes for PersistentVolumeClaims: a provisioner and a resizer, and what they work with.

`fake_volumes` are volumes without data for fake nodes, with faults that a test sets; `host_path` keeps the data in
directories of a real node.
"""
