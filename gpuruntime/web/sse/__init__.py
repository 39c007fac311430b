"""Server-sent events: live streams of units."""
