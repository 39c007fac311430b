"""What a pool does next, and the stock units that it creates."""
