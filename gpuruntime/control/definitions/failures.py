"""The one error of types that cannot become a definition."""

__all__ = ["DefinitionError"]


class DefinitionError(TypeError):
    """A type says something that a CustomResourceDefinition cannot, or contradicts itself.

    It is a mistake in the declaration of the type, found before anything is sent to a server.
    """

    def __init__(self, where: str, problem: str) -> None:
        super().__init__(f"{where}: {problem}")
