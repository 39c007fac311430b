"""How values and Structs are read from JSON and written to it: the hooks of the codec."""
