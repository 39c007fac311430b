"""From a change to a reconcile: sources, triggers, predicates, the runs of a key and what follows from each."""
