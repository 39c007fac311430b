"""What updates and deletes of all kinds share: merge patches, admission errors, redaction."""
