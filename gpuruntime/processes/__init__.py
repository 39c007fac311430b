"""Front doors: one file a process, wiring only.

The only room that reads the environment, parses command lines, configures logging and handles signals.
Nothing imports it.
"""
