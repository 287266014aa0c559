#!/usr/bin/env python3
"""Draws the results of the benchmark: the tables of the documents, a line of the README, and docs/assets/performance.svg.

    benches/chart.py           # writes them anew, from benches/results/whole.json and benches/instructions.txt
    benches/chart.py --check   # fails if they are not what the results say
    benches/chart.py --take FILE    # makes benches/results/whole.json of the runner's results, and draws it
    benches/chart.py --print FILE   # prints the tables of the runner's results

A table is between two comments of a Markdown file: `<!-- results: NAME -->` and `<!-- end of results -->`. The names are those of
`TABLES`, at the end. It needs Python's standard library alone.
"""

import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/scripts"))
from picture import FAINT, SOFT, card, svg, text

RESULTS = ROOT / "benches/results/whole.json"
INSTRUCTIONS = ROOT / "benches/instructions.txt"
PICTURE = ROOT / "docs/assets/performance.svg"
DOCUMENTS = (ROOT / "README.md", ROOT / "docs/evidence/performance.md", ROOT / "benches/results/whole.md")
TABLE = re.compile(r"(<!-- results: ([\w-]+) -->\n).*?(<!-- end of results -->)", re.S)

# What the README and the picture show: events of this size. Warm calls on a database that evaluates every condition; starts through
# TLS, as on Lambda; a function with 128 MB too.
SIZE, SERVER = 4096, {"warm": "embedded", "cold": "stub-tls", "small": "stub-tls"}
BY_HAND = "by hand, on the AWS SDK"
# The rows: contestants that are there, with their colours. The hand-written row is the better flavour of each measure.
ROWS = (
    (BY_HAND, "#7f7f7f"),
    ("typed", "#1f77b4"),
    ("raw", "#17becf"),
    ("typed-sdk", "#2ca02c"),
    ("powertools-python", "#ff7f0e"),
    ("powertools-typescript", "#d62728"),
)
# Title, part, measure.
MEASURES = (
    ("fresh call", "warm", "fresh_wall"),
    ("CPU of a fresh call", "warm", "fresh_cpu"),
    ("duplicate", "warm", "duplicate_wall"),
    ("CPU of a duplicate", "warm", "duplicate_cpu"),
    ("first response after a start, TLS", "cold", "first_response"),
    ("first response with 128 MB", "small", "first_response"),
    ("fresh call with 128 MB", "small", "fresh_wall"),
    ("peak memory", "warm", "peak_memory"),
)
PANELS = (
    ("A fresh call", "warm", "fresh_wall"),
    ("A duplicate", "warm", "duplicate_wall"),
    ("The first response after a start, through TLS", "cold", "first_response"),
    ("The first response after a start, with 128 MB", "small", "first_response"),
    ("A fresh call, with 128 MB", "small", "fresh_wall"),
    ("Peak memory", "warm", "peak_memory"),
)
# What this framework must reach: the largest ratio to the better hand-written one, by part and measure. An HTTP function also checks
# that the body of a duplicate is the same.
LIMITS = {
    "warm": {"fresh_cpu": 0.75, "fresh_wall": 0.90, "duplicate_cpu": 0.85, "duplicate_wall": 0.97, "peak_memory": 1},
    "warm, http": {"fresh_cpu": 0.90, "duplicate_cpu": 1, "duplicate_wall": 1, "peak_memory": 1},
    "cold": {"first_poll": 1, "first_response": 1},
    "cold, TLS": {"first_response": 0.20, "first_call": 0.10},
}
# Microseconds of our own for a cached duplicate of a 4 KB event.
CACHED = 25
# How many times slower the frameworks of other languages are, at least: a fresh call, and the first response.
PEERS = (("warm", "fresh_wall", 3), ("cold", "first_response", 15))
SERVERS = {"embedded": "embedded DynamoDB", "stub": "stub", "stub-tls": "stub, TLS"}


def amount(number, unit):
    """Writes a number of the results with three digits and the unit that a reader expects."""
    for larger, factor, source in (("s", 1e6, "us"), ("ms", 1e3, "us"), ("s", 1e3, "ms"), ("MiB", 1024, "KiB")):
        if unit == source and number >= factor:
            number, unit = number / factor, larger
            break
    digits = 0 if number >= 100 else 1 if number >= 10 else 2
    return f"{number:.{digits}f} {'µs' if unit == 'us' else unit}"


def ratio(number):
    return f"{number:.1f} ×" if number >= 10 else f"{number:.2f} ×"


def kib(size):
    """Writes a size of an event or a response."""
    return f"{size / 1024:.1f} KB" if size < 1024 else f"{size / 1024:.0f} KB"


def table(heads, rows):
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


# What tells the lines of a measure apart.
SETTING = ("part", "server", "event_bytes", "receipt_bytes", "records", "in_flight")
# The numbers of a measure in the summary. The last three are missing where nothing was written by hand.
NUMBERS = ("median", "p99", "samples", "ratio", "ratio_p10", "ratio_p90")


def summary_of(file):
    """Returns what the tables need of the runner's results: a row for each contestant under a setting."""
    summary = json.loads(file.read_text())
    if summary["schema"] != 3:
        sys.exit(f"{file} has schema {summary['schema']}, which this script does not know")
    rows, units = {}, {}
    for line in summary["measures"]:
        numbers = [line["median"], line["p99"], line["samples"]]
        if line["ratio"]:
            numbers += (line["ratio"][name] for name in ("median", "p10", "p90"))
        row = rows.setdefault((*(line[name] for name in SETTING), line["contestant"]), {})
        row[line["measure"]] = [float(f"{number:.7g}") if isinstance(number, float) else number for number in numbers]
        units[line["measure"]] = line["unit"]
    return {**summary, "units": units, "measures": [[*key, row] for key, row in rows.items()]}


def written(value, depth=2):
    """Writes JSON: a line for each member, and for each element of a list."""
    if depth == 0 or not isinstance(value, (dict, list)):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, list):
        return "[\n" + ",\n".join(written(element, 0) for element in value) + "\n]"
    return "{\n" + ",\n".join(f"{json.dumps(name)}: {written(member, depth - 1)}" for name, member in value.items()) + "\n}"


class Results:
    """A summary of the results."""

    def __init__(self, summary):
        self.all = summary
        self.contestants = {one["name"]: one for one in summary["contestants"]}
        self.lines = [
            {"measure": measure, "unit": summary["units"][measure], **dict(zip((*SETTING, "contestant"), key)), **dict(zip(NUMBERS, numbers))}
            for *key, row in summary["measures"] for measure, numbers in row.items()
        ]

    def find(self, contestant, measure, **setting):
        """Returns the line of a contestant; of the better hand-written one for `BY_HAND`."""
        names = [contestant]
        if contestant == BY_HAND:
            group = self.contestants.get("typed", {}).get("group")
            names = [one["name"] for one in self.of_kind("by-hand") if one["group"] == group]
        fits = [
            line for line in self.lines
            if line["contestant"] in names and line["measure"] == measure
            and all(line[name] == value for name, value in setting.items())
        ]
        return min(fits, key=lambda line: line["median"], default=None)

    def of_kind(self, kind):
        return [one for one in self.contestants.values() if one["kind"] == kind]

    def beside(self, line, kind, group, measure):
        """Returns what a contestant of this kind and group, which caches nothing, took under the setting of a line."""
        setting = {name: line[name] for name in SETTING}
        names = [one["name"] for one in self.of_kind(kind) if one["group"] == group and not one["cached"]]
        return next(filter(None, (self.find(name, measure, **setting) for name in names)), None)

    def label(self, contestant):
        return self.contestants[contestant]["label"] if contestant in self.contestants else contestant

    def rows(self):
        """Returns the name and the colour of each row that was measured."""
        return [(name, colour) for name, colour in ROWS if name == BY_HAND or name in self.contestants]

    def times(self, line, by_hand):
        """Returns the ratio to the hand-written one: of the rounds if the runner has it, else of the medians."""
        return line["ratio"] if "ratio" in line else line["median"] / by_hand["median"]


def cell(line):
    """Writes a median with its ratio and the ratio's range."""
    if not line:
        return ""
    shown = amount(line["median"], line["unit"])
    if "ratio" in line:
        shown += f" ({line['ratio']:.2f}; {line['ratio_p10']:.2f} to {line['ratio_p90']:.2f})"
    return shown


def summary(results):
    rows = []
    for name, _ in results.rows():
        row = [results.label(name)]
        for _, part, measure in MEASURES:
            setting = {"part": part, "server": SERVER[part], "event_bytes": SIZE}
            line, by_hand = results.find(name, measure, **setting), results.find(BY_HAND, measure, **setting)
            shown = amount(line["median"], line["unit"]) if line else ""
            if line and by_hand and name != BY_HAND:
                shown += f" ({ratio(results.times(line, by_hand))})"
            row.append(shown)
        rows.append(row)
    return table(["", *(title for title, _, _ in MEASURES)], rows)


def ratios(results):
    """Writes the line of the README: times the better hand-written function, in three measures."""
    names = (("`#[idempotent]`", "typed"), ("Powertools for Python", "powertools-python"), ("Powertools for TypeScript", "powertools-typescript"))
    measures = (("a fresh call", "warm", "fresh_wall"), ("a duplicate", "warm", "duplicate_wall"), ("the first response after a start", "cold", "first_response"))
    written, titles = [], []
    for label, name in names:
        found = {}
        for title, part, measure in measures:
            setting = {"part": part, "server": SERVER[part], "event_bytes": SIZE}
            line, by_hand = results.find(name, measure, **setting), results.find(BY_HAND, measure, **setting)
            if line and by_hand:
                found[title] = ratio(results.times(line, by_hand))
        if not found:
            continue
        # Only the first one names its measures.
        titles = titles or list(found)
        if list(found) != titles:
            sys.exit(f"the line of the README needs the same measures of each: {label} has {', '.join(found)}, the first one {', '.join(titles)}")
        shown = found.values() if written else (f"{times} for {title}" for title, times in found.items())
        written.append(f"{label} {', '.join(shown)}")
    return f"Times the better of two functions that are written by hand on the AWS SDK: {'; '.join(written)}."


def environment(results):
    machine, date = results.all["machine"], results.all["date"]
    rows = [
        ["date", date + (", **a short run, which proves nothing**" if results.all["quick"] else "")],
        ["machine", f"{machine['processor']}, {machine['cores']} cores, {machine['memory_mib'] / 1024:.0f} GiB, {machine['system']}"],
        ["load before and after", f"{machine['load_before']}, {machine['load_after']} (processes that run or wait for a core)"],
        ["Rust", results.all["versions"].get("rustc", "")],
    ]
    crates = [f"{name} {version}" for name, version in sorted(results.all["versions"].items()) if name != "rustc"]
    rows.append(["crates", ", ".join(crates)])
    for one in results.of_kind("peer"):
        rows.append([one["label"], ", ".join(f"{name} {version}" for name, version in one["versions"].items())])
    return table(["", ""], rows)


def settings(results, part):
    """Returns each setting of a part once, in the order of the file."""
    return list(dict.fromkeys(tuple(line[name] for name in SETTING[1:]) for line in results.lines if line["part"] == part))


def blocks(results, part, measures, title, show=None):
    """Writes a table for each setting of a part, with a row for each contestant; `show` writes a cell."""
    parts = []
    for setting in settings(results, part):
        names = dict(zip(SETTING[1:], setting))
        rows = []
        for one in results.contestants.values():
            found = [results.find(one["name"], measure, part=part, **names) for _, measure in measures]
            if any(found):
                cells = [show(measure, one["name"], names) for _, measure in measures] if show else map(cell, found)
                rows.append([one["label"], *cells])
        if rows and any(cell for row in rows for cell in row[1:]):
            parts.append(f"{title(**names)}:\n\n" + table(["", *(head for head, _ in measures)], rows))
    return "\n\n".join(parts)


def warm(results):
    heads = [("fresh, CPU", "fresh_cpu"), ("fresh, wall", "fresh_wall"), ("duplicate, CPU", "duplicate_cpu"),
             ("duplicate, wall", "duplicate_wall"), ("peak memory", "peak_memory")]
    return blocks(results, "warm", heads, lambda server, event_bytes, **_: f"**{kib(event_bytes)} event, {SERVERS[server]}**")


def cold(results):
    heads = [("first poll", "first_poll"), ("first response", "first_response"), ("first event to its response", "first_call"),
             ("CPU until the first response", "start_cpu")]
    return blocks(results, "cold", heads, lambda server, event_bytes, **_: f"**{kib(event_bytes)} event, {SERVERS[server]}**")


def growth(results):
    heads = [("fresh, CPU", "fresh_cpu"), ("fresh, wall", "fresh_wall"), ("duplicate, CPU", "duplicate_cpu"), ("duplicate, wall", "duplicate_wall")]
    titles = {
        "sizes": lambda event_bytes, receipt_bytes, **_: f"**Event and response of {kib(event_bytes)}**",
        "cache": lambda records, **_: f"**{records:,} records in the local cache**",
        "large": lambda event_bytes, **_: f"**Event of {kib(event_bytes)}**",
        "in-flight": lambda in_flight, **_: f"**{in_flight} in flight in one process**",
        "slow": lambda in_flight, **_: f"**{in_flight} in flight, one response of the database in a hundred 50 ms late**",
    }
    latencies = [("fresh, latency", "fresh_latency"), ("duplicate, latency", "duplicate_latency")]
    parts = []
    for part, title in titles.items():
        if part in ("in-flight", "slow"):
            parts += [blocks(results, part, heads + latencies, title), percentiles(results, part, latencies, title)]
        else:
            parts.append(blocks(results, part, heads, title))
    return "\n\n".join(filter(None, parts))


def percentiles(results, part, measures, title):
    """Writes the 99th percentiles of a part, with the ratio to the better hand-written one."""

    def p99(measure, contestant, setting):
        line, by_hand = (results.find(name, measure, part=part, **setting) for name in (contestant, BY_HAND))
        if not line or not by_hand:
            return ""
        return f"{amount(line['p99'], line['unit'])} ({ratio(line['p99'] / by_hand['p99'])})"

    return blocks(results, part, measures, lambda **setting: title(**setting) + ", 99th percentile", p99)


def small(results):
    heads = [("first poll", "first_poll"), ("first response", "first_response"), ("CPU until then", "start_cpu"), ("fresh, wall", "fresh_wall"),
             ("fresh, CPU", "fresh_cpu"), ("duplicate, wall", "duplicate_wall"), ("duplicate, CPU", "duplicate_cpu")]
    return blocks(results, "small", heads, lambda server, event_bytes, **_: f"**{kib(event_bytes)} event, {SERVERS[server]}**")


def floor(results):
    """Writes the CPU time of the work without idempotency, and what each function takes above it."""
    measures = (("fresh", "fresh_cpu"), ("duplicate", "duplicate_cpu"))
    columns = [(name, head, measure) for name in ("typed", "http", "by-hand-typed", "by-hand-http", "typed-cached") for head, measure in measures
               if not (name == "typed-cached" and head == "fresh")]
    rows = []
    for part in ("warm", "large"):
        for server, event_bytes, *_ in settings(results, part):
            if server != "stub":
                continue
            setting = {"part": part, "server": server, "event_bytes": event_bytes}
            row = [kib(event_bytes)]
            bare = {event: results.find(f"bare-{event}", "fresh_cpu", **setting) for event in ("typed", "http")}
            row += [amount(line["median"], "us") if line else "" for line in bare.values()]
            for name, _, measure in columns:
                line, base = results.find(name, measure, **setting), bare["http" if "http" in name else "typed"]
                row.append(amount(line["median"] - base["median"], "us") if line and base else "")
            rows.append(row)
    heads = ["event", *(results.label(f"bare-{event}") for event in ("typed", "http"))]
    return table(heads + [f"{results.label(name)}, {head}: more" for name, head, _ in columns], rows)


def without_symbols(binary):
    return binary["stripped_bytes"] or binary["bytes"]


def binaries(results):
    rows = []
    for one in results.contestants.values():
        if one["binary"]:
            rows.append([one["label"], f"{without_symbols(one['binary']) / 1e6:.2f} MB"])
    return table(["", "without symbols"], list(dict.fromkeys(map(tuple, rows))))


def reached(results):
    """Returns what was measured for each target: the target, its limit, whether it is the least, the contestant, the number."""
    ours = [one for one in results.of_kind("ours") if not one["cached"]]
    for line in results.lines:
        own, part = results.contestants[line["contestant"]], line["part"]
        part += ", http" if part == "warm" and own["event"] == "http" else ", TLS" if part == "cold" and line["server"] == "stub-tls" else ""
        limit = LIMITS.get(part, {}).get(line["measure"])
        if own in ours and limit and "ratio" in line:
            through_tls = ", TLS" if limit < 0.5 else ""
            yield f"{line['measure']}, ratio to by hand{through_tls}", limit, False, own["name"], line["ratio"]
    for own in ours:
        by_hand = [one["binary"] for one in results.of_kind("by-hand") if one["group"] == own["group"] and one["binary"]]
        if own["binary"] and by_hand:
            least = min(map(without_symbols, by_hand))
            yield "binary without symbols, ratio to by hand", 1, False, own["name"], without_symbols(own["binary"]) / least
    for line in results.lines:
        own = results.contestants[line["contestant"]]
        if own["cached"] and (line["part"], line["event_bytes"], line["measure"]) == ("warm", SIZE, "duplicate_cpu"):
            if bare := results.beside(line, "bare", own["group"], "fresh_cpu"):
                what = f"cached duplicate, us of CPU more than {bare['contestant']}"
                yield what, CACHED, False, own["name"], line["median"] - bare["median"]
    for peer in results.of_kind("peer"):
        for part, measure, limit in PEERS:
            for line in results.lines:
                if (line["contestant"], line["part"], line["measure"]) == (peer["name"], part, measure):
                    if own := results.beside(line, "ours", peer["group"], measure):
                        yield f"{measure}, times ours", limit, True, peer["name"], line["median"] / own["median"]


def targets(results):
    """Writes each target once: for each contestant the range over databases and sizes, and in how many cases it is met."""
    groups = {}
    for *target, measured in reached(results):
        groups.setdefault(tuple(target), []).append(measured)
    rows = []
    for (what, limit, at_least, contestant), values in groups.items():
        met = sum(value >= limit if at_least else value <= limit for value in values)
        spread = f"{min(values):.2f} to {max(values):.2f}" if len(values) > 1 else f"{values[0]:.2f}"
        verdict = "yes" if met == len(values) else f"**no**: {met} of {len(values)}"
        rows.append([what.replace("_", " "), f"{'≥' if at_least else '≤'} {limit:.2f}", results.label(contestant), spread, verdict])
    return table(["target", "limit", "contestant", "measured", "met"], sorted(rows, key=lambda row: row[:2]))


def keys(_):
    """Writes the instructions from an event to its key, as ratios to one pass over the same event."""
    # Each line has the name of a case, its instructions, and the bytes of its event.
    counts = dict(line.split()[:2] for line in INSTRUCTIONS.read_text().splitlines() if not line.startswith("#"))
    sizes = list(dict.fromkeys(name.rpartition("/")[2] for name in counts if name.startswith("reference/")))
    rows = []
    for source, reference in (("raw", "ignored_any"), ("typed", "to_writer")):
        for expression in dict.fromkeys(name.split("/")[1] for name in counts if name.startswith("key/")):
            row = [expression, source]
            for size in sizes:
                count, base = (counts.get(name) for name in (f"key/{expression}/{source}/{size}", f"reference/{reference}/{size}"))
                row.append(ratio(int(count) / int(base)) if count and base else "")
            rows.append(row)
    return table(["key", "from", *sizes], rows)


def panel(results, title, part, measure, x, y, width, height):
    """Draws one measure: a bar for each row, with its value and its ratio."""
    setting = {"part": part, "server": SERVER[part], "event_bytes": SIZE}
    found = [(name, colour, results.find(name, measure, **setting)) for name, colour in results.rows()]
    found = [one for one in found if one[2]]
    yield card(x, y, width, height)
    yield text(x + 12, y + 22, title, 14, weight="bold")
    if not found:
        yield text(x + width / 2, y + height / 2, "not measured in this run", 12, "middle", FAINT)
        return
    by_hand = results.find(BY_HAND, measure, **setting)
    left, room = x + 250, width - 250 - 122
    most = max(line["median"] for _, _, line in found)
    for index, (name, colour, line) in enumerate(found):
        top = y + 36 + index * 25
        long = max(2, room * line["median"] / most)
        shown = amount(line["median"], line["unit"])
        if by_hand and name != BY_HAND:
            shown += f" ({ratio(results.times(line, by_hand))})"
        yield text(left - 8, top + 13, results.label(name).replace("`", ""), 11, "end")
        yield f'<rect x="{left}" y="{top}" width="{long:.1f}" height="17" rx="2" fill="{colour}"/>'
        yield text(left + long + 6, top + 13, shown, 12, fill=SOFT)


def picture(results):
    width, tall, gap, top = 1040, 44 + 25 * len(results.rows()), 8, 62
    height = top + len(PANELS) // 2 * (tall + gap)
    parts = [
        text(12, 26, "One idempotent Lambda function, written in several ways", 16, weight="bold"),
        text(12, 46, f"{kib(SIZE)} event, local Lambda and DynamoDB on one machine, medians of one run. In brackets: times the better "
                     "hand-written one. Shorter is better.", 12, fill=SOFT),
    ]
    wide = (width - 3 * gap) // 2
    for index, (title, part, measure) in enumerate(PANELS):
        x, y = gap + (index % 2) * (wide + gap), top + (index // 2) * (tall + gap)
        parts += panel(results, title, part, measure, x, y, wide, tall)
    title = "Times and memory of an idempotent function: by hand, with this framework, with Powertools for Python and TypeScript"
    return svg(width, height, title, parts)


TABLES = {
    "summary": summary, "ratios": ratios, "environment": environment, "warm": warm, "cold": cold, "growth": growth, "small": small, "floor": floor, "binaries": binaries, "targets": targets, "keys": keys,
}


def main():
    arguments = sys.argv[1:]
    if arguments[:1] == ["--print"] and len(arguments) == 2:
        results = Results(summary_of(pathlib.Path(arguments[1])))
        for name, write in TABLES.items():
            if write is not keys:
                print(f"\n## {name}\n\n{write(results)}")
        return
    if arguments[:1] == ["--take"] and len(arguments) == 2:
        RESULTS.write_text(written(summary_of(pathlib.Path(arguments[1]))) + "\n")
        arguments = []
    if arguments not in ([], ["--check"]):
        sys.exit(__doc__)
    results = Results(json.loads(RESULTS.read_text()))

    def fill(found):
        if found[2] not in TABLES:
            sys.exit(f"no table is called `{found[2]}`; there are: {', '.join(TABLES)}")
        return f"{found[1]}\n{TABLES[found[2]](results)}\n\n{found[3]}"

    wanted = {PICTURE: picture(results)}
    for document in DOCUMENTS:
        present = document.read_text()
        wanted[document] = TABLE.sub(fill, present)
        if not TABLE.search(present):
            sys.exit(f"{document.relative_to(ROOT)} has no `<!-- results: .. -->`")
    old = [file for file, content in wanted.items() if not file.exists() or file.read_text() != content]
    if arguments:
        for file in old:
            print(f"{file.relative_to(ROOT)} is not what the results say: run benches/chart.py")
        sys.exit(bool(old))
    for file in old:
        file.write_text(wanted[file])
        print(f"wrote {file.relative_to(ROOT)}")


main()
