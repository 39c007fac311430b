"""The local stack, kind, e2e stories and the docs site."""
