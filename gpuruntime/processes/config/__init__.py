"""The config of processes: keys are attrs fields, values come from a YAML file, the environment and flags."""
