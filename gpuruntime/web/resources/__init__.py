"""REST resources: what all have in common, and a file for each. Their bodies, queries and views are in `api.rest`."""
