"""The stack: the tables, permissions and alarms that the command `idempotency` prints, and the functions of the plan."""

import json
import os
import subprocess
import time

from botocore.exceptions import ClientError

import build
import remove
from plan import CONTESTANTS, PROBE_MEMORY, PROBES
from state import REPOSITORY, Stop, write

# It is larger than a request may be, so it goes through the bucket.
TEMPLATE = "template.json"


def cells(plan):
    """Returns the functions that are measured: contestant, architecture, memory."""
    return [(name, architecture, memory) for architecture in plan["architectures"] for memory in plan["memory"] for name in CONTESTANTS]


def command():
    """Builds the command `idempotency`, and returns its path."""
    build.execute(["cargo", "build", "--quiet", "--locked", "--package", "idempotency-cli"])
    return REPOSITORY / os.environ.get("CARGO_TARGET_DIR", "target") / "debug/idempotency"


def printed(*arguments, **variables):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("IDEMPOTENCY_")} | variables
    run = [command(), "table", "template", "--format", "json", *arguments]
    return json.loads(subprocess.run(run, env=environment, stdout=subprocess.PIPE, check=True).stdout)


def template(world):
    """Returns the template. What users deploy is as the command prints it; tags and functions are added."""
    names, plan = world.names, world.plan
    template = printed("--table", names.table, "--alarms", names.namespace, "--function", "Calls=charge", "--function", "Probe=probe")
    resources = template["Resources"]
    composite = printed("--table", names.composite, IDEMPOTENCY_SORT_KEY_ATTR="sk")
    resources["CompositeTable"] = composite["Resources"]["IdempotencyTable"]
    for table in ("IdempotencyTable", "CompositeTable"):
        resources[table]["Properties"]["Tags"] = names.tags()

    resources["CallsRole"] = role(names, "CallsRecords")
    resources["ProbeRole"] = role(names, "ProbeRecords")
    denied = role(names, "ProbeRecords")
    no_updates = {"Effect": "Deny", "Action": "dynamodb:UpdateItem", "Resource": "*"}
    document = {"Version": "2012-10-17", "Statement": [no_updates]}
    denied["Properties"]["Policies"] = [{"PolicyName": "no-completion", "PolicyDocument": document}]
    resources["DeniedRole"] = denied

    zips = world.state.phase("build")["artifacts"]
    for name, architecture, memory in cells(plan):
        contestant = CONTESTANTS[name]
        add_function(
            resources, names, names.function(name, architecture, memory), "CallsRole",
            zips[build.artifact(name, architecture)], contestant["runtime"], contestant["handler"], architecture, memory, 30,
            {"IDEMPOTENCY_TABLE": names.table},
        )
    architecture = plan["architectures"][0]
    for name, probe in PROBES.items():
        table = f"{names.prefix}-missing" if name == "probe-missing" else names.table
        variables = {"IDEMPOTENCY_TABLE": table, "REHEARSAL_NAMESPACE": names.namespace} | probe["variables"]
        add_function(
            resources, names, names.function(name), "DeniedRole" if name == "probe-denied" else "ProbeRole",
            zips[f"probe-{architecture}"], "provided.al2023", "bootstrap", architecture, PROBE_MEMORY, probe["timeout"], variables,
        )
    return template


def role(names, policy):
    logs = {"Fn::Sub": "arn:${AWS::Partition}:iam::aws:policy/service-role/AWSLambdaBasicExecutionRole"}
    trust = {"Effect": "Allow", "Principal": {"Service": "lambda.amazonaws.com"}, "Action": "sts:AssumeRole"}
    return {
        "Type": "AWS::IAM::Role",
        "Properties": {
            "AssumeRolePolicyDocument": {"Version": "2012-10-17", "Statement": [trust]},
            "ManagedPolicyArns": [logs, {"Ref": policy}],
            "Tags": names.tags(),
        },
    }


def add_function(resources, names, name, of_role, artifact, runtime, handler, architecture, memory, timeout, variables):
    logical = "".join(part.capitalize() for part in name.removeprefix(names.prefix).split("-"))
    group = f"/aws/lambda/{name}"
    resources[f"{logical}Logs"] = {
        "Type": "AWS::Logs::LogGroup",
        "Properties": {"LogGroupName": group, "RetentionInDays": 7, "Tags": names.tags()},
    }
    resources[logical] = {
        "Type": "AWS::Lambda::Function",
        "DependsOn": f"{logical}Logs",
        "Properties": {
            "FunctionName": name,
            "Role": {"Fn::GetAtt": [of_role, "Arn"]},
            "Code": {"S3Bucket": names.bucket, "S3Key": artifact["sha256"] + ".zip"},
            "Runtime": runtime,
            "Handler": handler,
            "Architectures": [architecture],
            "MemorySize": memory,
            "Timeout": timeout,
            "Environment": {"Variables": variables},
            "Tags": names.tags(),
        },
    }


def run(world):
    """Makes the bucket and the stack. What an earlier try made is kept if it is whole."""
    names, cloudformation = world.names, world.aws.client("cloudformation")
    found = remove.stack(world)
    if found is not None and not names.owns(found["Tags"]):
        raise Stop(f"there is a stack `{names.stack}` that is not of this run: nothing was changed. Choose another --run")
    if found is not None and found["StackStatus"] not in ("CREATE_COMPLETE", "CREATE_IN_PROGRESS"):
        print(f"an earlier try left the stack in {found['StackStatus']}: it is made again")
        remove.stack_and_tables(world)
        found = None
    if found is None:
        upload(world)
        write(world.state.folder / TEMPLATE, json.dumps(template(world), indent=1) + "\n")
        s3 = world.aws.client("s3")
        s3.upload_file(str(world.state.folder / TEMPLATE), names.bucket, TEMPLATE)
        cloudformation.create_stack(
            StackName=names.stack,
            TemplateURL=f"https://{names.bucket}.s3.{world.aws.region}.amazonaws.com/{TEMPLATE}",
            Capabilities=["CAPABILITY_IAM"],
            Tags=names.tags(),
            # What was made stays until the next try, so that it can be looked at.
            OnFailure="DO_NOTHING",
        )
    status = wait(world, ["CREATE_COMPLETE"])
    return {"stack": names.stack, "status": status, "functions": len(cells(world.plan)) + len(PROBES)}


def wait(world, wanted, seconds=1800):
    """Waits until the stack is in one of these states, or until it is gone (`None`)."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        found = remove.stack(world)
        status = found and found["StackStatus"]
        if status in wanted:
            return status
        if status is None or not status.endswith("_IN_PROGRESS"):
            raise Stop(f"the stack is in {status}: {'; '.join(reasons(world)) or 'no reason is known'}")
        time.sleep(world.plan["poll_seconds"])
    raise Stop(f"the stack is not in {wanted} after {seconds} s")


def reasons(world):
    """Returns why resources failed."""
    try:
        events = world.aws.client("cloudformation").describe_stack_events(StackName=world.names.stack)["StackEvents"]
    except ClientError:
        return []
    failed = [event for event in events if event.get("ResourceStatus", "").endswith("_FAILED")]
    return [f"{event['LogicalResourceId']}: {event.get('ResourceStatusReason')}" for event in failed[-5:]]


def upload(world):
    """Makes the bucket, and puts the zips there. It is private: that is the default of S3."""
    s3, names = world.aws.client("s3"), world.names
    if not remove.bucket_exists(world):
        # The region that needs no location refuses one.
        place = {} if world.aws.region == "us-east-1" else {"CreateBucketConfiguration": {"LocationConstraint": world.aws.region}}
        s3.create_bucket(Bucket=names.bucket, **place)
        s3.put_bucket_tagging(Bucket=names.bucket, Tagging={"TagSet": names.tags()})
    for artifact in world.state.phase("build")["artifacts"].values():
        file = world.state.folder / "artifacts" / artifact["file"]
        s3.upload_file(str(file), names.bucket, artifact["sha256"] + ".zip")
