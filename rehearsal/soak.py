"""The soak of a deployed function: many callers of the same keys, while processes end and runs outlive their timeout."""

import collections
import concurrent.futures
import json
import random
import time

from functions import invoke
from plan import PROBES
from state import Stop

# Of 1,000 deliveries: the handler ends its process, returns an error, or runs longer than Lambda lets it.
EXITS, FAILS, OVERRUNS = 30, 30, 8


def run(world):
    """Delivers every key until it has a response, then each once more, and compares what all callers got."""
    plan, deliveries = world.plan, []
    # A try has keys of its own, so that a resumed soak does not get the responses of the one before.
    prefix = f"soak-{world.state.data['tries']}"
    first = deliver(world, f"{prefix}-first", "sweep")[-1]
    if first["response"] is None:
        raise Stop(f"a plain call ends in {first['ended']}: look at the log group of {world.names.function('probe')}")
    with concurrent.futures.ThreadPoolExecutor(plan["soak_clients"]) as pool:
        keys = [(f"{prefix}-{number}", caller) for number in range(plan["soak_keys"]) for caller in range(1 + number % 3)]
        for delivered in pool.map(lambda key: deliver(world, *key), keys):
            deliveries += delivered
        swept = list(pool.map(lambda number: deliver(world, f"{prefix}-{number}", "sweep")[-1], range(plan["soak_keys"])))
    ended = collections.Counter(delivery["ended"] for delivery in deliveries)
    broken = promises(world, deliveries, swept)
    print(f"  {plan['soak_keys']} keys, {len(deliveries)} deliveries: {dict(ended)}; {len(broken)} promises broken")
    result = {"keys": plan["soak_keys"], "deliveries": len(deliveries) + len(swept), "ends": dict(ended), "broken": broken}
    if broken:
        (world.state.folder / "soak.json").write_text(json.dumps(deliveries + swept, indent=1))
        raise Stop(f"the soak broke promises: {broken[:5]}; all deliveries are in {world.state.folder}/soak.json")
    if not ended["response"] or len(ended) < 3:
        raise Stop(f"the soak met too few kinds of ends to show anything: {dict(ended)}")
    return result


def deliver(world, key, caller):
    """Delivers a key until it has a response. What the handler does follows from the key, the caller and the try."""
    client, deliveries = world.aws.client("lambda-invoke"), []
    for number in range(12):
        chance = random.Random(f"{key} {caller} {number}")
        event = {"key": key, "work_ms": chance.randrange(5, 300), "end": "respond"}
        kind = chance.randrange(1000)
        if caller == "sweep":
            pass
        elif kind < EXITS:
            event["end"] = "exit"
        elif kind < EXITS + FAILS:
            event["end"] = "fail"
        elif kind < EXITS + FAILS + OVERRUNS:
            event["work_ms"] = (PROBES["probe"]["timeout"] + 5) * 1000
        called = invoke(client, world.names.function("probe"), event)
        response = None if called.failed else called.payload
        deliveries.append({"key": key, "caller": caller, "ended": called.error or "response", "response": response})
        if response is not None:
            break
        # A claim of a run that was killed lasts until its deadline.
        time.sleep(min(2.0, 0.1 * 2**number))
    return deliveries


def promises(world, deliveries, swept):
    """Returns the promises that did not hold, each with its key."""
    broken, given = [], collections.defaultdict(set)
    for delivery in deliveries + swept:
        response = delivery["response"]
        if response is not None:
            given[delivery["key"]].add(response["run"])
            if response["key"] != delivery["key"]:
                broken.append(f"{delivery['key']}: the response of another key")
    broken += [f"{key}: {len(runs)} different responses" for key, runs in given.items() if len(runs) > 1]
    broken += [f"{delivery['key']}: no response after all leases" for delivery in swept if delivery["response"] is None]
    stored = responses(world)
    broken += [f"{key}: a response that is not stored" for key, runs in given.items() if not runs <= stored[key]]
    return broken


def responses(world):
    """Returns the run of each stored response, by key. The table has no other records of this size: it is the run's own."""
    stored = collections.defaultdict(set)
    scan = world.aws.client("dynamodb").get_paginator("scan")
    for page in scan.paginate(TableName=world.names.table, ConsistentRead=True):
        for item in page["Items"]:
            if item["id"]["S"].startswith("probe#") and item.get("status", {}).get("S") == "COMPLETED":
                response = json.loads(item["data"]["S"])
                stored[response["key"]].add(response["run"])
    return stored
