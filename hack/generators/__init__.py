"""Generated files: OpenAPI, metrics page, public surface."""
