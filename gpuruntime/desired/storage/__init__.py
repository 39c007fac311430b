"""The children of a storage, its preparation, and the locks on it: pure functions of what is observed."""
