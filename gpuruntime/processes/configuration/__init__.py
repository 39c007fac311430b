"""Config of processes: keys as attrs fields, read from YAML and the environment, all problems told at once."""
