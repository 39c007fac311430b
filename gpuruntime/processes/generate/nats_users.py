"""The users of NATS, as a file that an account in the configuration of a server includes.

The file has no secrets: a password is a variable, which the server reads from its environment. The value of a variable
is read as a value of the configuration, so it has to be in double quotes: without them some passwords are numbers.
"""

import json
from collections.abc import Iterable
from typing import Final

from gpuruntime.api.invocations import ACTIVATOR_USER, API_USER, RESULT_STORE_USER, BusUser, authorization

__all__ = ["CLUSTER_USERS", "password_variable", "users_file"]

CLUSTER_USERS: Final = (API_USER, ACTIVATOR_USER, RESULT_STORE_USER)
"""The users of a cluster, where each process has a pod of its own."""


def password_variable(user: BusUser) -> str:
    """The variable with the password of a user, in double quotes."""
    return f"NATS_PASSWORD_{user.name.upper().replace('-', '_')}"


def users_file(header: str, users: Iterable[BusUser] = CLUSTER_USERS) -> str:
    """The list `users` of an account, below a comment."""
    users = tuple(users)
    references = {user.name: f"${password_variable(user)}" for user in users}
    text = json.dumps(authorization(references, users)["users"], indent=2)
    for reference in references.values():
        # In quotes it would be a text.
        text = text.replace(json.dumps(reference), reference)
    return f"# {header}\nusers: {text}\n"
