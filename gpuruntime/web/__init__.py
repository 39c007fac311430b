"""REST handlers, one file a resource: parse, call one use case, render."""
