"""Server-sent events: watches of units."""
