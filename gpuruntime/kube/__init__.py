"""The wire to the Kubernetes API server: credentials, transport, client, watch streams, errors."""

from gpuruntime.kube.answers import Answer
from gpuruntime.kube.client import Client, connect
from gpuruntime.kube.credentials import Authorization, Credentials, Endpoint
from gpuruntime.kube.deleting import Propagation
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
    UnexpectedAnswerError,
)
from gpuruntime.kube.forms import Form, as_form, dynamic, metadata_only, typed
from gpuruntime.kube.in_cluster import in_cluster
from gpuruntime.kube.kubeconfig import find, from_kubeconfig
from gpuruntime.kube.listing import ObjectList
from gpuruntime.kube.official import from_official
from gpuruntime.kube.patches import JsonPatch, MergePatch, Patch, StrategicPatch
from gpuruntime.kube.request import Request
from gpuruntime.kube.retrying import RetryPolicy
from gpuruntime.kube.transport import Transport
from gpuruntime.kube.wire import Middleware, Wire

__all__ = [
    "AlreadyExistsError",
    "Answer",
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
    "RetryPolicy",
    "ServerError",
    "Status",
    "StatusError",
    "StrategicPatch",
    "TooLargeResourceVersionError",
    "TooManyRequestsError",
    "Transport",
    "UnauthorizedError",
    "UnavailableError",
    "UnexpectedAnswerError",
    "Wire",
    "as_form",
    "connect",
    "dynamic",
    "find",
    "from_kubeconfig",
    "from_official",
    "in_cluster",
    "metadata_only",
    "typed",
]
