"""The function of the benchmark with Powertools for AWS Lambda (Python), as its documentation shows it."""

import itertools
import os

from aws_lambda_powertools.utilities.idempotency import (
    DynamoDBPersistenceLayer,
    IdempotencyConfig,
    idempotent,
)

persistence = DynamoDBPersistenceLayer(table_name=os.environ["IDEMPOTENCY_TABLE"])
config = IdempotencyConfig(
    event_key_jmespath="[user_id, order_id]",
    raise_on_no_idempotency_key=True,
    payload_validation_jmespath="amount",
    expires_after_seconds=3600,
)
charges = itertools.count(1)


# The decorator takes the lease from the remaining time of the context.
@idempotent(persistence_store=persistence, config=config, key_prefix="charge")
def handler(event, context):
    return charge(event)


def charge(order):
    """Does the work of the functions in Rust: `benches/orders`."""
    if order["amount"] == 0:
        raise ValueError("the amount is 0")
    return {
        "payment_id": f"pay-{order['order_id']}-{next(charges)}",
        "amount": order["amount"],
        "currency": order["currency"],
        "text": text(order["receipt_bytes"]),
    }


WORDS = ("paid", "order", "receipt", "amount", "total", "thank", "you", "delivery")


def text(size):
    parts, length, state = [], 0, 1
    while length < size:
        state = (state * 1_664_525 + 1_013_904_223) & 0xFFFF_FFFF
        word = WORDS[state >> 29]
        parts.append(word + " ")
        length += len(word) + 1
    return "".join(parts)[:size]
