"""The contract `raw`: the payload is the body of the request, and the response is the result. For any HTTP server.

The caller's headers are passed on, except those of a connection. The sidecar adds `Serverless-Invocation-Id`,
`Serverless-Attempt`, and `Serverless-Remaining-Ms` where there is a deadline. A status of 500 or more is a failure.
Any other one is the function's answer: an error of the caller is not mended by another attempt.
"""

import re
from typing import Final

from attrs import frozen

from gpuruntime.api.invocations import FailureClass, InvocationState
from gpuruntime.dispatch.protocol import FRAME_LIMIT, Run
from gpuruntime.dispatch.sidecar.contracts import FrameworkReply, FrameworkRequest, end_to_end
from gpuruntime.dispatch.sidecar.outcomes import Outcome

__all__ = ["RawContract"]

_TOKEN: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_LINE: Final = re.compile(r"[^\x00-\x08\x0a-\x1f\x7f]*")
_SERVER_ERROR: Final = 500
_CONTENT_TYPE: Final = "content-type"


@frozen
class RawContract:
    """Passes bytes on."""

    def request(self, run: Run, payload: bytes, remaining_millis: int | None) -> FrameworkRequest:
        """The request of a run. Headers that HTTP cannot express are left out."""
        own = {"Serverless-Invocation-Id": run.id, "Serverless-Attempt": str(run.attempt)}
        if remaining_millis is not None:
            own["Serverless-Remaining-Ms"] = str(remaining_millis)
        if run.content_type:
            own["Content-Type"] = run.content_type
        if run.traceparent:
            own["Traceparent"] = run.traceparent
        replaced = {name.lower() for name in own}
        passed = {
            name: value
            for name, value in end_to_end(tuple(run.headers.items())).items()
            if name.lower() not in replaced and _TOKEN.fullmatch(name) and _LINE.fullmatch(value)
        }
        return FrameworkRequest({**passed, **{n: v for n, v in own.items() if _LINE.fullmatch(v)}}, payload)

    def outcome(self, reply: FrameworkReply) -> Outcome:
        """How the run ended."""
        is_failure = reply.status >= _SERVER_ERROR
        headers = end_to_end(reply.headers)
        return Outcome(
            InvocationState.FAILED if is_failure else InvocationState.SUCCEEDED,
            FailureClass.FRAMEWORK_ERROR if is_failure else None,
            f"the framework answered with the status {reply.status}" if is_failure else "",
            reply.status,
            reply.header(_CONTENT_TYPE),
            {name: value for name, value in headers.items() if name.lower() != _CONTENT_TYPE},
            reply.body,
        )

    def most_bytes(self, run: Run) -> int:
        """The limit of the run itself."""
        return min(run.max_result_bytes or FRAME_LIMIT, FRAME_LIMIT)
