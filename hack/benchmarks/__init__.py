"""The bench: our library, operator and API beside others, measured alternately on one machine with the same objects."""
