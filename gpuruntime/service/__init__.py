"""Use cases without HTTP: operations, units, stock, pools, reads."""
