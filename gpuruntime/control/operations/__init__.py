"""What people who run a manager see of it: log lines, probes, metrics, debug pages, a watchdog."""
