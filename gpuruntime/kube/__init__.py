"""The wire to the Kubernetes API server: credentials, transport, client, watch streams, errors."""
