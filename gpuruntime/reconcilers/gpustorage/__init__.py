"""The GPUStorage reconciler."""
