"""What every route shares: routing, the response format, headers, query, body, errors, metrics and the audit log."""
