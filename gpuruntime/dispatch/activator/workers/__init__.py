"""Workers: who they are, what they hold, and which of them gets the next run."""
