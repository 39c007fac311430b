"""Types of REST requests and responses: pure values that servers and clients share."""
