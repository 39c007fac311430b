"""Authentication and authorization of callers, and the serving certificate."""
