"""An operator for small web sites: a Website is an HTML page, and the operator has pods serve it."""
