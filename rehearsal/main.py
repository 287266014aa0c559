"""The rehearsal: `rehearsal/run` starts it. Phases in their order; each that is done is not done again."""

import argparse
import datetime
import pathlib
import sys

import alarms
import build
import calls
import plan
import price
import remove
import report
import soak
import stack
import table
from aws import Aws, Names
from state import ROOT, State, Stop, now

PHASES = {
    "build": build.run,
    "deploy": stack.run,
    "table": table.run,
    "soak": soak.run,
    "calls": calls.run,
    "alarms": alarms.run,
    "report": report.run,
}


class World:
    """What the phases share."""

    def __init__(self, aws, names, plan, state=None):
        self.aws, self.names, self.plan, self.state = aws, names, plan, state


def arguments():
    # The same options before and after the command.
    options = argparse.ArgumentParser(add_help=False, argument_default=argparse.SUPPRESS)
    options.add_argument("--account", help="the twelve digits of the account; the credentials must be of it")
    options.add_argument("--region")
    options.add_argument("--yes", action="store_true", help="do not ask: neither after the price nor before the removal")
    options.add_argument("--keep", action="store_true", help="do not remove at the end")
    # For the stand-ins: their address, and a place for the runs.
    options.add_argument("--endpoint", help=argparse.SUPPRESS)
    options.add_argument("--runs", type=pathlib.Path, help=argparse.SUPPRESS)
    options.add_argument("--run", dest="name", help="the name of a new run")
    parser = argparse.ArgumentParser(prog="rehearsal/run", parents=[options], description="Rehearses the framework on AWS: rehearsal/README.md")
    commands = parser.add_subparsers(dest="command")
    commands.add_parser("price", parents=[options], help="say what a run costs; nothing is sent")
    for name, text in (("resume", "go on after a failure"), ("remove", "remove everything of a run")):
        commands.add_parser(name, parents=[options], help=text).add_argument("run")
    defaults = {"account": None, "region": None, "yes": False, "keep": False, "endpoint": None, "name": None, "runs": ROOT / "runs"}
    return argparse.Namespace(**defaults | vars(parser.parse_args()))


def confirmed(options, question):
    """Returns true if the person agrees. Without a terminal and without --yes it is a no."""
    if options.yes:
        return True
    if not sys.stdin.isatty():
        print(f"{question}: there is no terminal to ask, and no --yes")
        return False
    return input(f"{question} Write yes: ").strip() == "yes"


def start(options):
    aws = Aws(options.account, options.region, options.endpoint)
    run = options.name or datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%dt%H%M%S")
    names = Names(run, aws.account)
    planned = plan.LOCAL if options.endpoint else plan.AWS
    aws.check_account()
    estimate, text = price.estimate(planned, aws.region)
    print(f"run {run} in the account {aws.account}, {aws.region}\n\n{text}\n")
    if not confirmed(options, f"Deploy {names.prefix} to the account {aws.account}?"):
        raise Stop("not confirmed: nothing was made")
    data = {"run": run, "account": aws.account, "region": aws.region, "created": now(), "plan": planned, "tries": 0}
    state = State.create(options.runs, data)
    state.phase("price").update(estimate | {"ended": now()})
    state.save()
    return World(aws, names, planned, state)


def resumed(options):
    """Returns the world of a run that exists. Its account and region are kept with it."""
    state = State.load(options.runs, options.run)
    for name in ("account", "region"):
        given, kept = getattr(options, name), state.data[name]
        if given not in (None, kept):
            raise Stop(f"the run {options.run} is of the {name} {kept}, not of {given}")
    aws = Aws(state.data["account"], state.data["region"], options.endpoint)
    aws.check_account()
    return World(aws, Names(options.run, aws.account), state.data["plan"], state)


def rehearse(world, options):
    state = world.state
    state.data["tries"] += 1
    state.save()
    for name, phase in PHASES.items():
        kept = state.phase(name)
        if "ended" in kept:
            print(f"== {name}: done at {kept['ended']}")
            continue
        print(f"== {name}, {now()}", flush=True)
        kept["began"] = now()
        try:
            kept.update(phase(world))
        except BaseException as error:
            state.data["failures"].append({"phase": name, "at": now(), "error": f"{type(error).__name__}: {error}"})
            state.save()
            print(f"\nSTOPPED in {name}. Resources may exist and cost.", file=sys.stderr)
            print(f"  rehearsal/run resume {state.data['run']}    goes on with {name}", file=sys.stderr)
            print(f"  rehearsal/run remove {state.data['run']}    removes everything", file=sys.stderr)
            raise
        kept["ended"] = now()
        state.save()
    if options.keep:
        print(f"kept. To remove it: rehearsal/run remove {state.data['run']}")
        return 0
    return removed(world, options)


def removed(world, options):
    print("== remove", flush=True)
    if not confirmed(options, f"Delete {world.names.prefix}, with its tables, functions, logs and bucket?"):
        print(f"not removed. To remove it: rehearsal/run remove {world.names.run}")
        return 1
    left = remove.run(world)
    if world.state is not None:
        world.state.data["removed"] = {"at": now(), "left": left}
        world.state.save()
    return 1 if left else 0


def main():
    options = arguments()
    if options.command == "price":
        print(price.estimate(plan.AWS, options.region or "us-east-1")[1])
        return 0
    if options.command is None:
        return rehearse(start(options), options)
    if options.command == "remove" and options.account and not (options.runs / options.run).exists():
        aws = Aws(options.account, options.region, options.endpoint)
        aws.check_account()
        return removed(World(aws, Names(options.run, aws.account), plan.AWS), options)
    world = resumed(options)
    if options.command == "remove":
        return removed(world, options)
    if "removed" in world.state.data:
        raise Stop(f"the run {options.run} was removed: start a new one")
    return rehearse(world, options)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Stop as error:
        sys.exit(f"rehearsal/run: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
