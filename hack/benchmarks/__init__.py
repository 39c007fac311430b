"""The bench: ours and theirs, measured alternately on one machine on the same objects."""
