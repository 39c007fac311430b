"""What a function does next: its workers, the units that join it, and the network policy of both."""
