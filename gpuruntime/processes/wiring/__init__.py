"""The wiring that processes share: reconcilers, the API server, credentials, the status reporter."""
