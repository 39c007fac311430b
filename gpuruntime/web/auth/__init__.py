"""Authentication and authorisation of callers, and the serving certificate."""
