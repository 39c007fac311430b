"""The scenarios: each is a module here with a `SCENARIO`. A new module takes part by being there."""
