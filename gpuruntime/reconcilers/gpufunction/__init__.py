"""The GPUFunction controller."""
