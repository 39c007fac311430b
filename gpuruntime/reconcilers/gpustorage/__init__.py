"""The GPUStorage reconciler: the volume of a storage, its preparation, its growth and its deletion."""
