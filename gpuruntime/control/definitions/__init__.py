"""CustomResourceDefinitions from attrs types: schema, validation, and what a change breaks."""
