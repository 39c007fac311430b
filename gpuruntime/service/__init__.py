"""Use cases without HTTP: operations, claim and hand-off, seeding, queries."""
