"""The children of a unit: Deployment, pod template, Service."""
