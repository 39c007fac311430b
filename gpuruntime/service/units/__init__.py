"""Active units on request: create, update, delete."""
