"""HTTP to one API server: requests, middleware, retries, guarded connections."""
