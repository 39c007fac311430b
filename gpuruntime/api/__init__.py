"""Resource types of the control plane: shape, defaults, validation, conditions. Pure values."""
