"""The alarms' own queries, after calls that cause what they watch for."""

import concurrent.futures
import datetime
import json
import time

from functions import invoke
from plan import PROBES
from state import Stop
from stack import TEMPLATE

# What is caused, by alarm. The others' queries must be accepted, and are said to have no cause.
CAUSES = {}


def causes(alarm):
    def register(cause):
        CAUSES[alarm] = cause
        return cause

    return register


def call(world, function, event):
    return invoke(world.aws.client("lambda-invoke"), world.names.function(function), event)


def expect(called, error):
    if called.error != error:
        raise Stop(f"a call that should end in {error} ended in {called.error or 'a response'}")


@causes("StoreFailedAlarm")
def missing_table(world, key):
    expect(call(world, "probe-missing", {"key": key}), "IdempotencyStoreFailed")


@causes("UnprotectedAlarm")
def unprotected(world, key):
    expect(call(world, "probe-unprotected", {"key": key}), None)


@causes("HeldKeysAlarm")
def held(world, key):
    """A run ends its process. When its lease has ended, the key is held."""
    call(world, "probe-hold", {"key": key, "end": "exit"})
    time.sleep(PROBES["probe-hold"]["timeout"] + 1)
    expect(call(world, "probe-hold", {"key": key}), "IdempotencyUnresolved")


@causes("CompletionUnknownAlarm")
def completion_refused(world, key):
    expect(call(world, "probe-denied", {"key": key}), "IdempotencyCompletionUnknown")


@causes("LostOwnershipAlarm")
def lost_ownership(world, key):
    """The record of a live run is deleted, as an operator can do, and another run claims the key."""
    dynamodb = world.aws.client("dynamodb")
    # Both sandboxes are warm, so that the times below are those of the handlers.
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda n: call(world, "probe", {"key": f"{key}-warm-{n}", "work_ms": 500}), range(2)))
        first = pool.submit(call, world, "probe", {"key": key, "work_ms": 4000})
        time.sleep(2)
        pages = dynamodb.get_paginator("scan").paginate(
            TableName=world.names.table,
            ConsistentRead=True,
            FilterExpression="#s = :s AND begins_with(id, :p)",
            ExpressionAttributeNames={"#s": "status"},
            ExpressionAttributeValues={":s": {"S": "INPROGRESS"}, ":p": {"S": "probe#"}},
        )
        for item in [item for page in pages for item in page["Items"]]:
            dynamodb.delete_item(TableName=world.names.table, Key={"id": item["id"]})
        second = pool.submit(call, world, "probe", {"key": key, "work_ms": 5000})
        expect(first.result(), "IdempotencyLostOwnership")
        expect(second.result(), None)


def run(world):
    began = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(minutes=5)
    queries = of_alarms(world)
    for name, cause in CAUSES.items():
        cause(world, f"{name}-{world.state.data['tries']}")
        print(f"  caused: {name}", flush=True)
    found, states, until = {}, {}, time.monotonic() + world.plan["metrics_seconds"]
    while True:
        for name, query in queries.items():
            if not found.get(name):
                found[name] = values(world, query, began)
        # An alarm that went off once has shown it, also if it is quiet again.
        states |= {name: state for name, state in states_of(world).items() if states.get(name) != "ALARM"}
        arrived = all(found[name] and (states.get(name) == "ALARM" or not world.plan["alarm_states"]) for name in CAUSES)
        if arrived or time.monotonic() > until:
            break
        time.sleep(world.plan["poll_seconds"])
    results = {
        name: {"caused": name in CAUSES, "values": len(found[name]), "sum": sum(found[name]), "state": states.get(name)}
        for name in queries
    }
    without = [name for name in CAUSES if not found[name]]
    if without:
        print(f"  NO DATA for {without} after {world.plan['metrics_seconds']} s")
    return {"alarms": results, "without_data": without}


def of_alarms(world):
    """Returns the queries of the alarms, as they were deployed."""
    resources = json.loads((world.state.folder / TEMPLATE).read_text())["Resources"]
    text = {
        name: json.dumps(resource["Properties"]["Metrics"])
        for name, resource in resources.items()
        if resource["Type"] == "AWS::CloudWatch::Alarm"
    }
    # The one reference in them.
    table = json.dumps({"Ref": "IdempotencyTable"})
    return {name: json.loads(query.replace(table, json.dumps(world.names.table))) for name, query in text.items()}


def values(world, query, began):
    """Returns the values above the alarms' threshold, which is zero."""
    end = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(minutes=1)
    reply = world.aws.client("cloudwatch").get_metric_data(MetricDataQueries=query, StartTime=began, EndTime=end)
    return [value for result in reply["MetricDataResults"] for value in result["Values"] if value > 0]


def states_of(world):
    """Returns the state of each alarm, by its name in the template. CloudWatch looks once a minute."""
    pages = world.aws.client("cloudformation").get_paginator("list_stack_resources").paginate(StackName=world.names.stack)
    logical = {
        resource["PhysicalResourceId"]: resource["LogicalResourceId"]
        for page in pages
        for resource in page["StackResourceSummaries"]
        if resource["ResourceType"] == "AWS::CloudWatch::Alarm"
    }
    described = world.aws.client("cloudwatch").describe_alarms(AlarmNames=list(logical))
    return {logical[alarm["AlarmName"]]: alarm["StateValue"] for alarm in described["MetricAlarms"]}
