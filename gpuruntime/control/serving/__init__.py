"""The HTTP server in the manager's loop: listener, connections, limits."""
