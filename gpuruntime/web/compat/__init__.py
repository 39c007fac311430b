"""/stocks and /vms: the simplified view of stock units and active units."""
