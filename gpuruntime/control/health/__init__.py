"""Health and readiness checks, and their HTTP probes."""
