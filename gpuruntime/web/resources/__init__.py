"""REST resources, one file each, with their bodies and views."""
