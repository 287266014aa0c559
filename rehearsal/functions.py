"""One invocation of a function, with what Lambda reports of it."""

import base64
import json
import re
import time

from botocore.exceptions import ClientError

REPORT = re.compile(r"([A-Z][A-Za-z ]*): ([\d.]+) (ms|MB)")


class Invocation:
    """The response or the error, and the members of Lambda's line REPORT, such as `Billed Duration` in milliseconds."""

    def __init__(self, reply):
        text = reply["Payload"].read().decode()
        self.payload = json.loads(text) if text else None
        self.failed = "FunctionError" in reply
        log = base64.b64decode(reply.get("LogResult", "")).decode(errors="replace")
        report = log[log.rfind("REPORT RequestId") :] if "REPORT RequestId" in log else ""
        self.report = {name.strip(): float(value) for name, value, _ in REPORT.findall(report)}
        self.request_id = reply["ResponseMetadata"]["RequestId"]

    @property
    def error(self):
        """The name of the error, or `None`. Never its text, which can have a part of the event."""
        if not self.failed:
            return None
        return (self.payload or {}).get("errorType") or "an error without a name"


def invoke(client, function, event):
    """Invokes once. Lambda's refusals (429, and 502 while a function is made ready) are no invocations: those are sent again."""
    for attempt in range(8):
        try:
            payload = json.dumps(event).encode()
            return Invocation(client.invoke(FunctionName=function, Payload=payload, LogType="Tail"))
        except ClientError as error:
            code = error.response["Error"]["Code"]
            if code not in ("TooManyRequestsException", "ResourceConflictException", "ResourceNotReadyException") or attempt == 7:
                raise
            time.sleep(0.2 * 2**attempt)


def percentile(values, share):
    """Returns the nearest-rank percentile."""
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * share // 100) - 1)] if ordered else None
