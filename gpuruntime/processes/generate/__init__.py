"""`gpuruntime generate`: manifests from code."""
