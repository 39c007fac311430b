"""What the gateway signs and an accessor checks: Ed25519 keys, and bearers that live for a minute."""
