"""The report of a run: Markdown to read, and JSON with everything that the phases found."""

import json

from plan import CONTESTANTS
from state import ROOT, now, write


def run(world):
    state = world.state.data
    report = {
        "schema": 1,
        "run": state["run"],
        "date": now(),
        "service": "local stand-ins: the figures show that the rehearsal works, and nothing else" if world.aws.endpoint else "AWS",
        "region": state["region"],
        "plan": world.plan,
        "tries": state["tries"],
        "failures": state["failures"],
        "phases": {name: phase for name, phase in state["phases"].items() if name != "report"},
    }
    # Figures of the stand-ins stay with the run.
    folder = world.state.folder if world.aws.endpoint else ROOT / "results"
    for form, text in (("json", json.dumps(report, indent=1)), ("md", "\n".join(markdown(report)))):
        # The number of an account is no secret, but does not belong in a public repository. Errors of AWS quote it.
        write(folder / f"{state['run']}.{form}", text.replace(world.aws.account, "ACCOUNT") + "\n")
    file = folder / f"{state['run']}.md"
    print(f"  {file}, and .json beside it: read them, then commit them")
    return {"file": file.name}


def table(header, rows):
    yield "| " + " | ".join(header) + " |"
    yield "|" + "---|" * len(header)
    for row in rows:
        yield "| " + " | ".join(map(str, row)) + " |"
    yield ""


def markdown(report):
    phases = report["phases"]
    build, calls = phases["build"], phases["calls"]["cells"]
    dirty = ", with changes that are not committed" if build["changed"] else ""
    yield f"# Rehearsal {report['run']}"
    yield ""
    yield f"On {report['service']}. {report['date']}, {report['region']}, commit `{build['commit']}`{dirty}, {build['rustc']}."
    yield f"Estimated before the run: {phases['price']['usd']:.2f} USD. Started {report['tries']} times."
    for failure in report["failures"]:
        yield f"Stopped in {failure['phase']} at {failure['at']}: {failure['error']}"
    yield ""
    yield "## The table"
    yield ""
    suites = phases["table"]["conformance"]
    for suite in suites:
        yield f"- {suite['cases']} cases, {suite['passed']} passed, {suite['failed']} failed, {suite['skipped']} skipped"
    yield ""
    if report["plan"]["quick_conformance"]:
        yield "A partition key alone, with the lean client, without large responses."
    else:
        yield "Each key layout, with the SDK's and the lean client, without and with large responses."
    yield "`idempotency table check` found nothing wrong."
    yield ""
    yield "## The soak"
    yield ""
    soak = phases["soak"]
    yield f"{soak['keys']} keys, {soak['deliveries']} deliveries, {len(soak['broken'])} promises broken. How the deliveries ended:"
    yield ""
    yield from table(("end", "deliveries"), sorted(soak["ends"].items()))
    yield "## Cold starts and calls"
    yield ""
    yield "As Lambda's line REPORT has them, in milliseconds: the median, and in brackets the 99th percentile. First call: INIT and the first call's duration, the sum of both medians."
    yield ""
    for architecture in report["plan"]["architectures"]:
        for memory in report["plan"]["memory"]:
            yield f"### {architecture}, {memory} MB"
            yield ""
            rows = []
            for name, contestant in CONTESTANTS.items():
                cell = calls[f"{name}-{architecture}-{memory}"]
                cold, fresh, duplicate = cell["cold"], cell["fresh"], cell["duplicate"]
                first = cold["Init Duration"]["median"] + cold["Duration"]["median"]
                rows.append(
                    (
                        contestant["label"], shown(cold, "Init Duration"), f"{first:.1f}", shown(cold, "Billed Duration"), shown(fresh, "Duration"),
                        shown(duplicate, "Duration"), shown(fresh, "Billed Duration"), f"{cold['Max Memory Used']['median']:.0f}",
                    )
                )
            header = ("", "INIT", "first call", "billed, first call", "fresh call", "duplicate", "billed, fresh call", "memory, MB")
            yield from table(header, rows)
    plan = report["plan"]
    yield f"Of each: {plan['cold_starts']} cold starts by a changed variable, {plan['calls']} fresh calls and as many duplicates."
    yield ""
    yield "## The alarms' queries"
    yield ""
    rows = []
    for name, alarm in sorted(phases["alarms"]["alarms"].items()):
        data = f"{alarm['sum']:g}" if alarm["values"] else "**none**" if alarm["caused"] else "none, and no cause"
        rows.append((name, "yes" if alarm["caused"] else "no", data, alarm["state"] or "not known"))
    yield from table(("alarm", "caused", "sum that its query returned", "state of the alarm"), rows)
    yield "What is not caused shows that CloudWatch accepts the query, and nothing else."


def shown(values, member):
    return f"{values[member]['median']:.2f} ({values[member]['p99']:.2f})" if member in values else "–"
