"""A function in Python that is called, watched and answered line by line.

Each line is JSON. A call comes in; when the handler runs, it says so and is told what to do; then comes the outcome:

    > {"event": {...}, "remaining_ms": 30000, "key_prefix": "...", "config": {...}, "layer": {...}}
    < {"running": true}
    > {"return": {...}}   or {"raise": "message"} or {"return_nan": true}
    < {"returned": {...}} or {"raised": "class of the exception"}

`config` and `layer` are arguments of `IdempotencyConfig` and of `DynamoDBPersistenceLayer`. Where `remaining_ms` is null, a
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
    """As much of Lambda's context as is looked at."""

    def __init__(self, remaining_ms):
        self.remaining_ms = remaining_ms

    def get_remaining_time_in_millis(self):
        return self.remaining_ms


class Declined(Exception):
    """The handler's own failure."""


def say(line):
    print(json.dumps(line), flush=True)


def run():
    say({"running": True})
    told = json.loads(sys.stdin.readline())
    if "raise" in told:
        raise Declined(told["raise"])
    return float("nan") if "return_nan" in told else told["return"]


def call(order):
    # A layer of its own for each call: one keeps the configuration it was given first.
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
        # The line must be JSON, even where the answer is not.
        outcome = {"returned": None if returned != returned else returned}
    except Exception as exception:  # whatever it is, the test wants to know its name
        outcome = {"raised": type(exception).__name__}
    say(outcome)
