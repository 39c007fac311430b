"""Storages on request, and the locks that units have on them."""
