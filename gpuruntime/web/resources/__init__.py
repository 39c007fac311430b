"""REST resources: the handlers of each, with its bodies, queries and views."""
