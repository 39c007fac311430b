"""Stocks and VMs: the simplified view of stock units and active units, on a cluster or in memory."""
