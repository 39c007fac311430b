"""A web application that had nothing to do with Kubernetes, until it got a controller in its own event loop."""
