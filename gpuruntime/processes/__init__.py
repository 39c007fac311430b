"""The `gpuruntime` command and its processes: one module per process, wiring only.

The only room that reads the environment, parses command lines, configures logging and handles signals. No other room
imports it. A new process is one module with its config class and its `COMMAND`, and a row in `command`.
"""
