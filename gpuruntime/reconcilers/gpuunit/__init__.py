"""The GPUUnit controller: children, status, diagnosis."""
