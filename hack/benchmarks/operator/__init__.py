"""The scenarios of the operator: units on clusters that live for one run."""
