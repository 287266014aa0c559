#!/usr/bin/env python3
"""Draws the dashboard of template.yaml as an SVG, from the metrics that functions have printed.

    cargo run -- --metrics target/metrics.jsonl
    tests/scripts/dashboard.py target/metrics.jsonl docs/assets/dashboard.svg

The first file has lines in CloudWatch's embedded metric format; other lines are skipped. Titles, places and expressions come from
the template, so the picture changes with it. Metrics of AWS itself (the table, queues, streams) are not in such a file.
It needs Python's standard library alone.
"""

import collections
import json
import pathlib
import re
import sys
import textwrap

from picture import FAINT, GRID, SOFT, card, svg, text

TEMPLATE = pathlib.Path(__file__).resolve().parents[2] / "template.yaml"
# A cell of CloudWatch's grid, which has 24 columns, and the space around a widget.
CELL_WIDTH, CELL_HEIGHT, MARGIN = 50, 36, 4
# Widths in seconds that a point in time can have, and the most points in one widget.
PERIODS, MOST_POINTS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 300, 3600), 60
# For series without a colour of their own: one for each operation.
COLOURS = ("#1f77b4", "#2ca02c", "#ff7f0e", "#9467bd", "#d62728", "#17becf", "#8c564b", "#e377c2", "#7f7f7f", "#bcbd22")
SEARCH = re.compile(r"""SEARCH\('\{([^}]*)\} (?:[^']* )?MetricName="(\w+)"', '(\w+)'\)""")

Value = collections.namedtuple("Value", "seconds names dimensions number")
Series = collections.namedtuple("Series", "label colour points total is_light")


def dashboard():
    """Returns the widgets of the template's dashboard."""
    block = re.search(r"^( *)DashboardBody: !Sub \|\n((?:\1 +.*\n)+)", TEMPLATE.read_text(), re.M)
    if not block:
        sys.exit(f"{TEMPLATE.name} has no `DashboardBody: !Sub |`")
    return json.loads(textwrap.dedent(block[2]))["widgets"]


def values(lines):
    """Returns every value in lines of the embedded metric format, sorted by time."""
    found = []
    for number, line in enumerate(lines, 1):
        if '"_aws"' not in line:
            continue
        try:
            entry = json.loads(line)
            seconds = entry["_aws"]["Timestamp"] / 1000
            for directive in entry["_aws"]["CloudWatchMetrics"]:
                for dimensions in directive["Dimensions"]:
                    names = {name: entry[name] for name in dimensions}
                    for metric in directive["Metrics"]:
                        numbers = entry[metric["Name"]]
                        for value in numbers if isinstance(numbers, list) else [numbers]:
                            found.append(Value(seconds, (directive["Namespace"], metric["Name"]), names, float(value)))
        except (KeyError, TypeError, ValueError) as error:
            sys.exit(f"line {number} is not in the embedded metric format: {error!r}")
    return sorted(found, key=lambda value: value.seconds)


def statistic(name, numbers):
    """Returns one number for many, such as their sum or a percentile (nearest rank)."""
    if name == "Sum":
        return sum(numbers)
    if name in ("Maximum", "Minimum", "Average"):
        return {"Maximum": max, "Minimum": min, "Average": lambda all: sum(all) / len(all)}[name](numbers)
    percent = float(name.removeprefix("p"))
    ranked = sorted(numbers)
    return ranked[max(0, -(-len(ranked) * percent // 100).__int__() - 1)]


class Recording:
    """The values of one file, in points of equal width."""

    def __init__(self, found):
        self.values = found
        self.start = found[0].seconds if found else 0
        length = (found[-1].seconds - self.start) if found else 0
        self.period = next((period for period in PERIODS if length / period < MOST_POINTS), PERIODS[-1])
        self.count = int(length / self.period) + 1
        operations = sorted({value.dimensions.get("Operation", "") for value in found})
        self.colours = {name: COLOURS[index % len(COLOURS)] for index, name in enumerate(operations)}

    def series(self, metric):
        """Returns the series of one entry of a widget's `metrics`."""
        options = metric[-1] if isinstance(metric[-1], dict) else {}
        search = SEARCH.search(options.get("expression", ""))
        if not search:
            return []
        schema, name, stat = search.groups()
        namespace, *dimensions = schema.split(",")
        is_total = options["expression"].startswith("SUM(")
        groups = collections.defaultdict(list)
        for value in self.values:
            if value.names == (namespace, name) and set(value.dimensions) == set(dimensions):
                groups[() if is_total else tuple(value.dimensions[each] for each in dimensions)].append(value)
        found = []
        for group, members in sorted(groups.items()):
            label = options.get("label", name)
            for dimension, value in zip(dimensions, group):
                label = label.replace("${!PROP('Dim.%s')}" % dimension, value)
            points = collections.defaultdict(list)
            for value in members:
                points[int((value.seconds - self.start) / self.period)].append(value.number)
            found.append(Series(
                label,
                options.get("color") or self.colours[members[0].dimensions.get("Operation", "")],
                {at: statistic(stat, numbers) for at, numbers in points.items()},
                statistic(stat, [value.number for value in members]),
                stat == "p50",
            ))
        return found or ([Series(options.get("label", name), options.get("color"), {}, 0, False)] if is_total else [])


def short(number):
    """Writes a number with as many digits as a reader needs."""
    return f"{number:.0f}" if number >= 10 or number == int(number) else f"{number:.1f}"


def nice(number):
    """Returns the smallest of 1, 2, 5, 10, 20, .. that is not less than a number."""
    step = 1
    while step < number:
        step = step * 5 // 2 if str(step)[0] == "2" else step * 2
    return step


def single_values(all_series, x, y, width, height):
    """Draws one number for each series."""
    cell = width / max(1, len(all_series))
    for index, one in enumerate(all_series):
        middle = x + cell * (index + 0.5)
        yield text(middle, y + height * 0.55, short(one.total), 26, "middle", one.colour if one.total else FAINT, "bold")
        yield text(middle, y + height * 0.82, one.label, 11, "middle", SOFT)


def legend(all_series, x, y, width):
    """Draws the names of the series, and returns how many pixels the last line is below the first one."""
    drawn, left, top = [], x, y
    for one in all_series:
        needed = 22 + 6.5 * len(one.label)
        if left > x and left + needed > x + width:
            left, top = x, top + 14
        faint = ' fill-opacity="0.35"' if one.is_light else ""
        drawn.append(f'<rect x="{left:.0f}" y="{top - 9:.0f}" width="10" height="10" fill="{one.colour}"{faint}/>')
        drawn.append(text(left + 14, top, one.label, 11, fill=SOFT))
        left += needed
    return drawn, top - y


def chart(all_series, recording, properties, x, y, width, height):
    """Draws the series over the time of the recording: stacked bars, or lines with a mark for each point."""
    names, below = legend(all_series, x, 0, width)
    bottom = y + height - 40 - below
    yield from (re.sub(r' y="(-?\d+)"', lambda found: f' y="{int(found[1]) + bottom + 34:.0f}"', name) for name in names)
    is_stacked = properties.get("stacked")
    heights = [sum(one.points.get(at, 0) for one in all_series) for at in range(recording.count)]
    if not is_stacked:
        heights = [number for one in all_series for number in one.points.values()]
    top_value = nice(max(heights, default=1) or 1)
    left, right = x + 34, x + width
    step = (right - left) / recording.count

    def level(number):
        return bottom - (bottom - y) * number / top_value

    unit = properties.get("yAxis", {}).get("left", {}).get("label", "")
    for share in (0, 0.5, 1):
        at = level(top_value * share)
        yield f'<line x1="{left:.0f}" x2="{right:.0f}" y1="{at:.1f}" y2="{at:.1f}" stroke="{GRID}"/>'
        yield text(left - 4, at + 4, short(top_value * share), 10, "end", FAINT)
    yield text(left, y - 4, unit, 10, fill=FAINT)
    for share in (0, 0.5, 1):
        seconds = recording.count * recording.period * share
        yield text(left + (right - left) * share, bottom + 14, f"{short(seconds)} s", 10, ("start", "middle", "end")[round(share * 2)], FAINT)
    base = [0] * recording.count
    for one in all_series:
        marks = []
        for at, number in sorted(one.points.items()):
            centre = left + step * (at + 0.5)
            if is_stacked:
                tall = level(base[at]) - level(base[at] + number)
                yield (f'<rect x="{centre - step * 0.4:.1f}" y="{level(base[at] + number):.1f}" width="{step * 0.8:.1f}" '
                       f'height="{tall:.1f}" fill="{one.colour}"/>')
                base[at] += number
            else:
                marks.append((centre, level(number)))
        strong = 0.35 if one.is_light else 1
        if len(marks) > 1:
            path = " ".join(f"{across:.1f},{up:.1f}" for across, up in marks)
            yield f'<polyline points="{path}" fill="none" stroke="{one.colour}" stroke-opacity="{strong / 2}"/>'
        for across, up in marks:
            yield f'<circle cx="{across:.1f}" cy="{up:.1f}" r="2.5" fill="{one.colour}" fill-opacity="{strong}"/>'


def widget(one, recording):
    """Draws a widget of the dashboard."""
    x, y = one["x"] * CELL_WIDTH + MARGIN, one["y"] * CELL_HEIGHT + MARGIN
    width, height = one["width"] * CELL_WIDTH - 2 * MARGIN, one["height"] * CELL_HEIGHT - 2 * MARGIN
    properties = one["properties"]
    yield card(x, y, width, height)
    if one["type"] == "text":
        heading, _, rest = properties["markdown"].partition("\n")
        yield text(x + 10, y + 24, heading.lstrip("# "), 16, weight="bold")
        for index, line in enumerate(textwrap.wrap(rest, 190)):
            yield text(x + 10, y + 42 + 14 * index, line, 12)
        return
    yield text(x + 10, y + 18, properties["title"], 13, weight="bold")
    if one["type"] == "alarm":
        names = [re.sub(r"\$\{(\w+?)(Alarm)?\.Arn\}", r"\1", name) for name in properties["alarms"]]
        yield text(x + 10, y + 42, "   ".join(names), 12, fill=SOFT)
        return
    all_series = [one for metric in properties["metrics"] for one in recording.series(metric)]
    if properties["view"] == "singleValue":
        yield from single_values(all_series, x, y + 8, width, height - 8)
    elif any(one.points for one in all_series):
        drawn = [one for one in all_series if one.points]
        yield from chart(drawn, recording, properties, x + 10, y + 40, width - 20, height - 44)
    else:
        measured = [metric for metric in properties["metrics"] if isinstance(metric[0], str) or "{AWS/" in metric[0]["expression"]]
        labels = ", ".join(metric[-1]["label"] for metric in measured if "$" not in metric[-1]["label"])
        why = f"measured by AWS alone{labels and ': '}{labels}" if measured else "none in this run"
        for index, line in enumerate(textwrap.wrap(why, width // 7)):
            yield text(x + width / 2, y + height / 2 + 16 * index, line, 12, "middle", FAINT)


def draw(widgets, recording):
    """Returns the SVG of a dashboard."""
    width = 24 * CELL_WIDTH
    height = max(one["y"] + one["height"] for one in widgets) * CELL_HEIGHT
    parts = [part for one in widgets for part in widget(one, recording)]
    return svg(width, height, "The dashboard of the idempotent calls, drawn from the metrics of one run of the demo", parts)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    source, target = map(pathlib.Path, sys.argv[1:])
    recording = Recording(values(source.read_text().splitlines()))
    if not recording.values:
        sys.exit(f"{source} has no line in the embedded metric format")
    target.write_text(draw(dashboard(), recording))
    print(f"{target}: {len(recording.values)} values in {recording.count} points of {recording.period} s")


main()
