"""The proxy in the gateway: finds a storage, signs the request, and passes the bytes of its accessor on."""
