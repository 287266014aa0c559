"""The table as it was deployed: `idempotency table check`, and the conformance suite with both clients and key layouts."""

import json
import re
import subprocess

import build
import stack
from state import REPOSITORY, Stop


def run(world):
    check = checked(world)
    environment = world.aws.environment() | {
        "CONFORMANCE_DYNAMODB_ENDPOINT": "aws",
        "CONFORMANCE_TABLE": world.names.table,
    }
    quick = world.plan["quick_conformance"]
    environment |= {"CONFORMANCE_QUICK": "yes"} if quick else {"CONFORMANCE_COMPOSITE_TABLE": world.names.composite}
    command = ["cargo", "run", "--quiet", "--locked", "-p", "idempotency-tests", "--features", "servers", "--example", "conformance"]
    ended = subprocess.run(command, cwd=REPOSITORY, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    (world.state.folder / "conformance.log").write_text(ended.stdout)
    print(ended.stdout, end="")
    if ended.returncode != 0:
        raise Stop(f"the store does not conform: {world.state.folder}/conformance.log")
    counts = re.findall(r"(\d+) cases, (\d+) passed, (\d+) failed, (\d+) skipped", ended.stdout)
    names = ("cases", "passed", "failed", "skipped")
    return {"check": check, "conformance": [dict(zip(names, map(int, each))) for each in counts]}


def checked(world):
    """Returns the findings of the command. One that is wrong stops the run."""
    command = [str(stack.command()), "table", "check", "--table", world.names.table, "--json"]
    ended = subprocess.run(command, env=world.aws.environment(), stdout=subprocess.PIPE, text=True)
    print(ended.stdout, end="")
    if ended.returncode != 0:
        raise Stop("`idempotency table check` found something wrong with the table that its own template made")
    return json.loads(ended.stdout)
