"""The error of types that cannot become a CustomResourceDefinition."""

__all__ = ["DefinitionError"]


class DefinitionError(TypeError):
    """A type declares something that a CustomResourceDefinition cannot express, or contradicts itself.

    It is a bug in the declaration of the type, found before any request.
    """

    def __init__(self, where: str, problem: str) -> None:
        super().__init__(f"{where}: {problem}")
