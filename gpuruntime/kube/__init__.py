"""A Kubernetes API client: credentials, transport, client, discovery, errors.

::

    auth        credentials: kubeconfig files, service accounts, exec plugins, TLS
    transport   HTTP: requests, middleware, retries
    client      the verbs of the API, for objects in any form
    discovery   the kinds that a server serves
    builtin     typed built-in kinds

Import from here, and built-in kinds from `gpuruntime.kube.builtin`.
"""

from gpuruntime.kube.auth.credentials import Authorization, Credentials, Endpoint
from gpuruntime.kube.auth.in_cluster import in_cluster
from gpuruntime.kube.auth.infer import infer
from gpuruntime.kube.auth.kubeconfig.contexts import from_kubeconfig
from gpuruntime.kube.auth.official import from_official
from gpuruntime.kube.client import Client, connect
from gpuruntime.kube.delete_options import Propagation
from gpuruntime.kube.discovery import Discovery
from gpuruntime.kube.errors import (
    AlreadyExistsError,
    BadRequestError,
    Cause,
    ConflictError,
    CredentialsError,
    ExpiredError,
    ForbiddenError,
    InvalidError,
    KubeError,
    NotFoundError,
    NotSentError,
    ServerError,
    Status,
    StatusError,
    TooLargeResourceVersionError,
    TooManyRequestsError,
    UnauthorizedError,
    UnavailableError,
    UnexpectedResponseError,
)
from gpuruntime.kube.forms import Form, as_form, dynamic, form_of, metadata_only, typed
from gpuruntime.kube.list_pages import ObjectList
from gpuruntime.kube.patches import JsonPatch, MergePatch, Patch, StrategicPatch
from gpuruntime.kube.transport.middleware import Middleware, Wire
from gpuruntime.kube.transport.request import Request
from gpuruntime.kube.transport.response import Response
from gpuruntime.kube.transport.retries import RetryPolicy
from gpuruntime.kube.transport.server_time import ServerTime
from gpuruntime.kube.transport.transport import Transport

__all__ = [
    "AlreadyExistsError",
    "Authorization",
    "BadRequestError",
    "Cause",
    "Client",
    "ConflictError",
    "Credentials",
    "CredentialsError",
    "Discovery",
    "Endpoint",
    "ExpiredError",
    "ForbiddenError",
    "Form",
    "InvalidError",
    "JsonPatch",
    "KubeError",
    "MergePatch",
    "Middleware",
    "NotFoundError",
    "NotSentError",
    "ObjectList",
    "Patch",
    "Propagation",
    "Request",
    "Response",
    "RetryPolicy",
    "ServerError",
    "ServerTime",
    "Status",
    "StatusError",
    "StrategicPatch",
    "TooLargeResourceVersionError",
    "TooManyRequestsError",
    "Transport",
    "UnauthorizedError",
    "UnavailableError",
    "UnexpectedResponseError",
    "Wire",
    "as_form",
    "connect",
    "dynamic",
    "form_of",
    "from_kubeconfig",
    "from_official",
    "in_cluster",
    "infer",
    "metadata_only",
    "typed",
]
