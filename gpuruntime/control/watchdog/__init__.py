"""The event loop watchdog: detects what blocks the loop, and logs where."""
