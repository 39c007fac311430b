"""The accessor: serves one directory read-only over HTTP, to requests that the gateway signed."""
