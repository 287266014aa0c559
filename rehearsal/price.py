"""Says what a run costs: planned amounts times the prices of `prices.json`. Free tiers are not counted."""

import json

from plan import CONTESTANTS, PROBE_MEMORY, PROBES
from state import ROOT

# What one thing takes. On the side of too much, because it has not been measured on AWS.
COLD_START_SECONDS = {128: 8, 512: 3, 1769: 1.5}
CALL_SECONDS = {128: 0.3, 512: 0.1, 1769: 0.05}
SOAK_DELIVERIES_A_KEY, SOAK_SECONDS_A_DELIVERY = 4, 1
# Of the conformance suite, on two tables: guessed from its cases, some of which write responses of 6 MB. Not counted.
CONFORMANCE_WRITES, CONFORMANCE_READS = 600_000, 200_000
HOURS = 3


def prices(region):
    """Returns the prices of a region, and whether they are of this region."""
    table = json.loads((ROOT / "prices.json").read_text())
    known = table["regions"]
    return table, known.get(region, known["us-east-1"]), region in known


def lines(plan, price):
    """Returns what is bought: the name, the amount, and the money."""
    cells = len(CONTESTANTS) * len(plan["memory"])
    for architecture in plan["architectures"]:
        seconds = sum(
            len(CONTESTANTS) * memory / 1024 * (plan["cold_starts"] * COLD_START_SECONDS[memory] + 2 * plan["calls"] * CALL_SECONDS[memory])
            for memory in plan["memory"]
        )
        if architecture == plan["architectures"][0]:
            seconds += plan["soak_keys"] * SOAK_DELIVERIES_A_KEY * SOAK_SECONDS_A_DELIVERY * PROBE_MEMORY / 1024
        yield f"Lambda, GB-seconds on {architecture}", seconds, seconds * price[f"lambda_gb_second_{architecture}"]
    calls = cells * len(plan["architectures"]) * (plan["cold_starts"] + 2 * plan["calls"])
    calls += plan["soak_keys"] * SOAK_DELIVERIES_A_KEY
    yield "Lambda, requests", calls, calls / 1e6 * price["lambda_million_requests"]
    writes = 3 * calls + CONFORMANCE_WRITES
    yield "DynamoDB, write units", writes, writes / 1e6 * price["dynamodb_million_writes"]
    reads = calls + CONFORMANCE_READS
    yield "DynamoDB, read units", reads, reads / 1e6 * price["dynamodb_million_reads"]
    metrics = len(PROBES) * 12 * HOURS / 730
    yield "CloudWatch, metrics for a month", metrics, metrics * price["cloudwatch_metric_month"]
    # An alarm on a query is billed by the metrics that the query reads.
    alarms = 6 * len(PROBES) * HOURS / 730
    yield "CloudWatch, alarms for a month", alarms, alarms * price["cloudwatch_alarm_metric_month"]
    read = 8 * len(PROBES) * plan["metrics_seconds"] / plan["poll_seconds"]
    yield "CloudWatch, metrics read", read, read / 1e3 * price["cloudwatch_thousand_metrics_read"]
    logs = calls * 1500 / 1e9
    yield "CloudWatch Logs, GB", logs, logs * price["logs_gb"]
    yield "S3, writes", 20, 20 / 1e3 * price["s3_thousand_writes"]


def estimate(plan, region):
    """Returns the estimate as data for the report, and as text."""
    table, price, known = prices(region)
    bought = [{"what": what, "amount": amount, "usd": usd} for what, amount, usd in lines(plan, price)]
    total = sum(line["usd"] for line in bought)
    text = [f"{'what':36} {'amount':>14} {'USD':>9}"]
    text += [f"{line['what']:36} {line['amount']:>14,.2f} {line['usd']:>9.4f}" for line in bought]
    text += [f"{'in total, before taxes':36} {'':14} {total:>9.2f}", f"prices of {table['date']}: {table['source']}"]
    if not known:
        text.append(f"WARNING: prices.json does not have {region}; these are the prices of us-east-1")
    text.append("The amounts are estimates. Resources that are not removed go on costing.")
    return {"lines": bought, "usd": total, "prices_of": table["date"], "region_known": known}, "\n".join(text)
