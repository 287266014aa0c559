"""Removes everything of a run, and looks whether anything is left. It needs nothing but the run's name: no state."""

import time

from botocore.exceptions import ClientError

from state import Stop

GONE = ("ValidationError", "ResourceNotFoundException", "NoSuchBucket", "404", "NoSuchTagSet", "NotFound")


def found_or_none(call, *arguments, **options):
    """Returns the reply, or `None` if there is no such thing."""
    try:
        return call(*arguments, **options)
    except ClientError as error:
        if error.response["Error"]["Code"] in GONE:
            return None
        raise


def stack(world):
    """Returns the description of the run's stack, or `None`."""
    reply = found_or_none(world.aws.client("cloudformation").describe_stacks, StackName=world.names.stack)
    stacks = [each for each in (reply or {}).get("Stacks", []) if each["StackStatus"] != "DELETE_COMPLETE"]
    return stacks[0] if stacks else None


def tables(world):
    """Returns the run's tables, with their tags."""
    dynamodb = world.aws.client("dynamodb")
    for name in (world.names.table, world.names.composite):
        reply = found_or_none(dynamodb.describe_table, TableName=name)
        if reply is not None:
            tags = dynamodb.list_tags_of_resource(ResourceArn=reply["Table"]["TableArn"])["Tags"]
            yield name, reply["Table"], tags


def bucket_exists(world):
    """Returns true if there is a bucket of the run. One of another owner is an error."""
    s3 = world.aws.client("s3")
    if found_or_none(s3.head_bucket, Bucket=world.names.bucket, ExpectedBucketOwner=world.aws.account) is None:
        return False
    tags = found_or_none(s3.get_bucket_tagging, Bucket=world.names.bucket)
    # Without tags: a try ended between the two requests. The name has the account and the run.
    if tags is not None and not world.names.owns(tags["TagSet"]):
        raise Stop(f"the bucket {world.names.bucket} is not of this run: nothing was changed")
    return True


def stack_and_tables(world):
    """Deletes the stack, and the tables, which outlive it."""
    found = stack(world)
    if found is not None:
        if not world.names.owns(found["Tags"]):
            raise Stop(f"the stack {world.names.stack} is not of this run: nothing was changed")
        if found["StackStatus"] != "DELETE_IN_PROGRESS":
            world.aws.client("cloudformation").delete_stack(StackName=world.names.stack)
            # A stack that could not be deleted before is in that state for another moment.
            time.sleep(world.plan["poll_seconds"])
        print("waiting for the end of the stack")
        until = time.monotonic() + 1800
        while (found := stack(world)) is not None:
            if found["StackStatus"] == "DELETE_FAILED" or time.monotonic() > until:
                raise Stop(f"the stack cannot be deleted: {found['StackStatus']} {found.get('StackStatusReason')}. Correct that, and remove again")
            time.sleep(world.plan["poll_seconds"])
    dynamodb = world.aws.client("dynamodb")
    for name, table, tags in tables(world):
        if not world.names.owns(tags):
            raise Stop(f"the table {name} is not of this run: it was not changed")
        if table.get("DeletionProtectionEnabled"):
            dynamodb.update_table(TableName=name, DeletionProtectionEnabled=False)
            dynamodb.get_waiter("table_exists").wait(TableName=name, WaiterConfig={"Delay": world.plan["poll_seconds"]})
        if table["TableStatus"] != "DELETING":
            dynamodb.delete_table(TableName=name)
        dynamodb.get_waiter("table_not_exists").wait(TableName=name, WaiterConfig={"Delay": world.plan["poll_seconds"]})


def run(world):
    """Removes, then returns what is left."""
    stack_and_tables(world)
    iam = world.aws.client("iam")
    for policy in policies(world):
        # The stack has deleted them. What is left of a stack that could not is attached to nothing.
        if policy["AttachmentCount"] == 0:
            iam.delete_policy(PolicyArn=policy["Arn"])
    logs = world.aws.client("logs")
    for group in log_groups(world):
        logs.delete_log_group(logGroupName=group)
    if bucket_exists(world):
        s3 = world.aws.client("s3")
        for page in s3.get_paginator("list_objects_v2").paginate(Bucket=world.names.bucket):
            for entry in page.get("Contents", []):
                s3.delete_object(Bucket=world.names.bucket, Key=entry["Key"])
        s3.delete_bucket(Bucket=world.names.bucket)
    remaining = left(world)
    for each in remaining:
        print(f"LEFT: {each}")
    if not remaining:
        print("nothing is left, except what AWS keeps by itself and does not bill: the metrics, until they expire, and for")
        print("35 days a backup of each table, which DynamoDB makes when a table with point-in-time recovery is deleted")
    return remaining


def log_groups(world):
    pages = world.aws.client("logs").get_paginator("describe_log_groups")
    for page in pages.paginate(logGroupNamePrefix=f"/aws/lambda/{world.names.prefix}-"):
        for group in page["logGroups"]:
            yield group["logGroupName"]


def left(world):
    """Returns everything with a name of this run, looked up service by service."""
    aws, names = world.aws, world.names

    def of_pages(service, operation, members, member):
        for page in aws.client(service).get_paginator(operation).paginate():
            for each in page[members]:
                name = each[member] if member else each
                # Physical names that CloudFormation chooses begin with the stack's name.
                if name == names.prefix or name.startswith((f"{names.prefix}-", f"/aws/lambda/{names.prefix}-")):
                    yield f"{service} {name}"

    found = [f"cloudformation {names.stack}"] if stack(world) else []
    found += of_pages("lambda", "list_functions", "Functions", "FunctionName")
    found += of_pages("dynamodb", "list_tables", "TableNames", None)
    found += of_pages("iam", "list_roles", "Roles", "RoleName")
    found += [f"iam {policy['PolicyName']}" for policy in policies(world)]
    found += of_pages("cloudwatch", "describe_alarms", "MetricAlarms", "AlarmName")
    found += [f"logs {group}" for group in log_groups(world)]
    found += [f"s3 {names.bucket}"] if bucket_exists(world) else []
    return sorted(found)


def policies(world):
    """Returns the policies with a name that CloudFormation makes from the stack's name."""
    for page in world.aws.client("iam").get_paginator("list_policies").paginate(Scope="Local"):
        for policy in page["Policies"]:
            if policy["PolicyName"].startswith(f"{world.names.prefix}-"):
                yield policy
