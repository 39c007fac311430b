"""A control plane on this machine: its processes, certificates, nodes, accounts and audit log."""
