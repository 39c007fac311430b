"""HTTP servers in the manager's loop, with limits on connections, and graceful shutdown."""
