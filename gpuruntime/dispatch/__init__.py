"""Work on its way to a worker and back: the activator, the sidecar, and the protocol between them."""
