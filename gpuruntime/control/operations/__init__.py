"""What people who run a manager see of it: probes, metrics, debug pages, a watchdog."""
