"""The event loop watchdog: notices what blocks the loop, and names it."""
