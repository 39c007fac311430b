"""Health and readiness checks, and the HTTP endpoints that serve them."""
