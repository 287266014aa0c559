"""The soak's function in Python: the same as `tests/src/soak/function.rs`, under the same local Lambda.

It speaks the Runtime API itself, so that only the library is between the event and the handler.
"""

import http.client
import json
import os
import time

from aws_lambda_powertools.utilities.idempotency import (
    DynamoDBPersistenceLayer,
    IdempotencyConfig,
    idempotent,
)

SLOWNESS = int(os.environ["SOAK_SLOWNESS"])
RUNS = os.path.join(os.environ["SOAK_FOLDER"], f"{os.getpid()}.jsonl")
PATH = "/2018-06-01/runtime/invocation/"

runs = 0


class Context:
    """The part of Lambda's context that the library reads."""

    def __init__(self, request_id, deadline_ms):
        self.aws_request_id = request_id
        self.deadline_ms = deadline_ms

    def get_remaining_time_in_millis(self):
        return max(self.deadline_ms - int(time.time() * 1000), 0)


class Declined(Exception):
    """The handler's own failure."""


@idempotent(
    persistence_store=DynamoDBPersistenceLayer(table_name=os.environ["IDEMPOTENCY_TABLE"]),
    config=IdempotencyConfig(event_key_jmespath="key", expires_after_seconds=3600),
    key_prefix="soak",
)
def handler(event, context):
    global runs
    runs += 1
    run = f"{os.getpid()}-{runs}"
    began = {
        "key": event["key"],
        "run": run,
        "request_id": context.aws_request_id,
        "at_us": time.time_ns() // 1000,
    }
    with open(RUNS, "a") as file:
        file.write(json.dumps(began) + "\n")
    time.sleep((event["work_ms"] * SLOWNESS + event["extra_ms"]) / 1000)
    if event["fails"]:
        raise Declined("declined")
    return {"key": event["key"], "run": run}


def serve():
    host, port = os.environ["AWS_LAMBDA_RUNTIME_API"].split(":")
    runtime = http.client.HTTPConnection(host, int(port))

    def post(request_id, outcome, body):
        runtime.request("POST", f"{PATH}{request_id}/{outcome}", json.dumps(body))
        runtime.getresponse().read()

    while True:
        runtime.request("GET", PATH + "next")
        reply = runtime.getresponse()
        event = json.loads(reply.read())
        request_id = reply.headers["lambda-runtime-aws-request-id"]
        deadline_ms = int(reply.headers["lambda-runtime-deadline-ms"])
        try:
            returned = handler(event, Context(request_id, deadline_ms))
        except Exception as exception:  # the soak counts exceptions by name
            error = {"errorType": type(exception).__name__, "errorMessage": str(exception)}
            post(request_id, "error", error)
        else:
            post(request_id, "response", returned)


serve()
