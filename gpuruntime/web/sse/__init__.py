"""Server-sent events: watches of objects."""
