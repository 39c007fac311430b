"""Local copies of collections that follow the server: reflectors fill stores, informers tell what changes."""
