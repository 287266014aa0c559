"""A function in Python that is controlled line by line.

Each line is JSON. The test sends a call. If the handler runs, it reports that and reads an instruction. Then it reports
the outcome:

    > {"event": {...}, "remaining_ms": 30000, "key_prefix": "...", "config": {...}, "layer": {...}}
    < {"running": true}
    > {"return": {...}}   or {"raise": "message"} or {"return_nan": true}
    < {"returned": {...}} or {"raised": "class of the exception"}

`config` and `layer` are arguments of `IdempotencyConfig` and of `DynamoDBPersistenceLayer`. If `remaining_ms` is null, a
plain function is called outside of an invocation.
"""

import json
import sys

from aws_lambda_powertools.utilities.idempotency import (
    DynamoDBPersistenceLayer,
    IdempotencyConfig,
    idempotent,
    idempotent_function,
)


class Context:
    """The part of Lambda's context that the library reads."""

    def __init__(self, remaining_ms):
        self.remaining_ms = remaining_ms

    def get_remaining_time_in_millis(self):
        return self.remaining_ms


class Declined(Exception):
    """The handler's own failure."""


def report(line):
    print(json.dumps(line), flush=True)


def run():
    report({"running": True})
    instruction = json.loads(sys.stdin.readline())
    if "raise" in instruction:
        raise Declined(instruction["raise"])
    return float("nan") if "return_nan" in instruction else instruction["return"]


def call(order):
    # A new layer for each call, because a layer keeps its first configuration.
    settings = {
        "persistence_store": DynamoDBPersistenceLayer(**order["layer"]),
        "config": IdempotencyConfig(**order["config"]),
        "key_prefix": order["key_prefix"],
    }
    if order["remaining_ms"] is None:

        @idempotent_function(data_keyword_argument="event", **settings)
        def function(event):
            return run()

        return function(event=order["event"])

    @idempotent(**settings)
    def handler(event, context):
        return run()

    return handler(order["event"], Context(order["remaining_ms"]))


for line in sys.stdin:
    try:
        returned = call(json.loads(line))
        # The line must be JSON, even if the response is not.
        outcome = {"returned": None if returned != returned else returned}
    except Exception as exception:  # the test compares the name of any exception
        outcome = {"raised": type(exception).__name__}
    report(outcome)
