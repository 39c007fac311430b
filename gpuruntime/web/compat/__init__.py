"""/stocks and /vms: a simplified view of stock units and active units. Only `web.app` imports it."""
