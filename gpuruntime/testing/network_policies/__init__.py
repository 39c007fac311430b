"""Network policies that are enforced on a real node: rules of each pod, a table of nftables, and its controller."""
