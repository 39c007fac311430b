"""What every route shares: routing, the envelope, headers, query, body, errors, metrics and the audit log."""
