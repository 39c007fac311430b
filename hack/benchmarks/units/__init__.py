"""The operator's part of the bench: units on clusters that are made for one run and gone after it."""
