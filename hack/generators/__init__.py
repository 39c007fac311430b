"""Generators of checked-in files: OpenAPI, metrics page, public surface."""
