"""What every HTTP server of the product shares: authentication of callers, and what routes have in common."""
