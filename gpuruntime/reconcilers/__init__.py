"""One file a kind: look at the world, write the difference, report status. Reconcilers are strangers to each other."""
