"""Idempotent writes: only real differences, only our own objects, and no hot loops."""
