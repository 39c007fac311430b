"""The scenarios of the REST API."""
