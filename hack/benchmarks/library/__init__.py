"""The scenarios of the library: each module here has a `SCENARIO` and is found by itself."""
