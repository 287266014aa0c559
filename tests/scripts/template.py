#!/usr/bin/env python3
"""Compares template.yaml and the guide with the code: functions, variables, metrics, permissions, event sources, alarms and dashboard.

tests/scripts/template.sh runs it. It needs PyYAML, which the SAM CLI brings. It prints every fault, and exits with 2 if there is one.
An argument names another template: tests/scripts/template-faults.sh checks with changed copies that each fault is found.
"""

import functools
import json
import pathlib
import re
import sys
import tomllib

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
# The demo starts the other examples. Neither it nor a server is a function.
NO_FUNCTION = {"demo", "server", "transfer"}
# An HTTP API waits for a function this long, in seconds.
HTTP_API_WAITS = 30
# A queue's visibility timeout is at least this many times the function's timeout, by AWS's advice.
VISIBILITY = 6
# The table of the records, and all that the framework does with its items.
TABLE = "IdempotencyTable"
ACTIONS = sorted(f"dynamodb:{action}" for action in ("GetItem", "PutItem", "UpdateItem", "DeleteItem"))
# These alarms must exist, by metric.
ALARMED = {"CompletionUnknown", "LostOwnership", "Held", "StoreFailed", "Unprotected", "WriteThrottleEvents", "ReadThrottleEvents", "IteratorAge"}
# Fields of AWS's "Dashboard body structure and syntax".
WIDGET = {"type", "x", "y", "width", "height", "properties"}
PROPERTIES = {
    "text": {"markdown", "background"},
    "alarm": {"alarms", "sortBy", "states", "title"},
    "metric": {
        "accountId", "annotations", "legend", "liveData", "metrics", "period", "region", "setPeriodToTimeRange", "singleValueFullPrecision",
        "sparkline", "stacked", "stat", "table", "timezone", "title", "trend", "view", "yAxis",
    },
}
METRIC_OPTIONS = {"color", "expression", "id", "label", "period", "region", "stat", "visible", "yAxis"}
VIEWS = {"timeSeries", "singleValue", "gauge", "bar", "pie", "table"}

faults = []


def require(holds, fault):
    if not holds:
        faults.append(fault)
    return holds


class Loader(yaml.SafeLoader):
    """Reads `!Ref X` as {"Ref": "X"} and so on."""


def intrinsic(loader, name, node):
    construct = {"scalar": loader.construct_scalar, "sequence": loader.construct_sequence, "mapping": loader.construct_mapping}
    value = construct[node.id](node) if node.id == "scalar" else construct[node.id](node, deep=True)
    return {"Ref": value} if name == "Ref" else {f"Fn::{name}": value}


Loader.add_multi_constructor("!", intrinsic)
FILE = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "template.yaml"
TEMPLATE = yaml.load(FILE.read_text(), Loader)
RESOURCES = TEMPLATE["Resources"]
GLOBALS = TEMPLATE["Globals"]["Function"]


def of_type(kind):
    return {name: each["Properties"] for name, each in RESOURCES.items() if each["Type"] == kind}


FUNCTIONS = of_type("AWS::Serverless::Function")
ALARMS = of_type("AWS::CloudWatch::Alarm")


def target(value):
    """Returns the resource that a !Ref or a !GetAtt names."""
    if isinstance(value, dict):
        value = value.get("Ref") or value.get("Fn::GetAtt") or ""
    return value.split(".")[0] if isinstance(value, str) else ""


def properties(value):
    return RESOURCES.get(target(value), {}).get("Properties", {})


def rust(*folders):
    """Returns the Rust code of folders, without tests and comments."""
    texts = []
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.rs")):
            if path.stem != "tests" and "tests" not in path.relative_to(ROOT).parts:
                text = re.split(r"^#\[cfg\(test\)\]\s*mod ", path.read_text(), flags=re.M)[0]
                texts.append(re.sub(r"//.*", "", text))
    return "\n".join(texts)


def literals(code, pattern):
    return set(re.findall(f'"({pattern})"', code))


def seconds(duration):
    return sum(int(number) * {"s": 1, "m": 60, "h": 3600, "d": 86400}[unit] for number, unit in re.findall(r"(\d+)\s*([smhd])", duration))


@functools.cache
def examples():
    """Returns the name of the package of each example that is a function, by its folder."""
    found = {}
    for manifest in sorted(ROOT.glob("examples/*/Cargo.toml")):
        folder = manifest.parent
        if folder.name not in NO_FUNCTION and (folder / "src/main.rs").exists():
            found[f"examples/{folder.name}"] = tomllib.loads(manifest.read_text())["package"]["name"]
    return found


def timeout(function):
    return function.get("Timeout", GLOBALS["Timeout"])


def variable(function, name):
    return function.get("Environment", {}).get("Variables", {}).get(name)


def check_functions():
    by_folder = {each["CodeUri"]: name for name, each in FUNCTIONS.items()}
    for folder, package in examples().items():
        if require(folder in by_folder, f"{folder} has no function"):
            built = RESOURCES[by_folder[folder]]["Metadata"]["BuildProperties"]["Binary"]
            require(built == package, f"{by_folder[folder]} builds the binary {built}, but the package of {folder} is {package}")
    for folder, name in by_folder.items():
        require(folder in examples(), f"{name}: {folder} is no example with a src/main.rs")


def check_variables():
    known = literals(rust("idempotency-core/src", "idempotency-expression/src", "idempotency-dynamodb/src", "idempotency-postgres/src", "idempotency-valkey/src", "idempotency-lambda/src"), "IDEMPOTENCY_[A-Z_]+")
    require(len(known) > 20, f"only {len(known)} variables were found in the code: this script reads it wrongly")
    for name, function in [("Globals", GLOBALS), *FUNCTIONS.items()]:
        for each in function.get("Environment", {}).get("Variables", {}):
            require(each in known, f"{name}: nothing reads the variable {each}")


def check_permissions():
    for name, function in FUNCTIONS.items():
        role = properties(function.get("Role"))
        # Without a role SAM makes one, with managed policies for every queue or stream of the account.
        if not require(role, f"{name} has no role of this template"):
            continue
        policies = [properties(each).get("PolicyDocument") for each in role.get("ManagedPolicyArns", [])]
        require(all(policies), f"{name}: a managed policy is not one of this template")
        policies += [each["PolicyDocument"] for each in role.get("Policies", [])]
        statements = [statement for policy in policies if policy for statement in policy["Statement"]]
        check_records(name, function["CodeUri"], statements)
        for statement in statements:
            actions = statement["Action"] if isinstance(statement["Action"], list) else [statement["Action"]]
            require(not any("*" in action for action in actions), f"{name}: the actions {actions} have a wildcard")
            if "*" in json.dumps(statement["Resource"]):
                require(actions == ["kinesis:ListStreams"], f"{name}: {actions} are allowed on every resource")


def check_records(name, folder, statements):
    """A function reaches the records of its own operations, and reads the id that a start reads, and no others."""
    [warm_up] = re.findall(r'WARM_UP_ID: &str = "(.+)"', rust("idempotency-dynamodb/src/store"))
    prefixes = re.findall(r'key_prefix(?: = |\()"([^"]+)"', rust(f"{folder}/src"))
    require(prefixes, f"{name}: no operation in {folder} has a key_prefix, so its records cannot be told apart")
    needed = [(ACTIONS, sorted(f"{prefix}#*" for prefix in prefixes)), (["dynamodb:GetItem"], [warm_up])]
    allowed = []
    for statement in statements:
        if target(statement["Resource"]) == TABLE:
            keys = statement.get("Condition", {}).get("ForAllValues:StringLike", {}).get("dynamodb:LeadingKeys", [])
            allowed.append((sorted(statement["Action"]), sorted(keys)))
    require(allowed == needed, f"{name} may do {allowed} on the table, and the framework needs {needed}")


def check_table():
    table = RESOURCES[TABLE]
    require(table["Properties"].get("DeletionProtectionEnabled") is True, "the table can be deleted by mistake")
    for policy in ("DeletionPolicy", "UpdateReplacePolicy"):
        require(table.get(policy) == "Retain", f"the table does not survive its stack: {policy} is not Retain")


def check_queue(where, function, source):
    queue = properties(source["Queue"])
    visible = queue.get("VisibilityTimeout", 30)
    require(visible >= VISIBILITY * timeout(function), f"{where}: the visibility timeout is {visible} s, less than {VISIBILITY} times the function's")
    require("MaximumConcurrency" in source.get("ScalingConfig", {}), f"{where} has no ScalingConfig.MaximumConcurrency")
    dead_letters = properties(queue.get("RedrivePolicy", {}).get("deadLetterTargetArn"))
    if require(dead_letters, f"{where}: the queue has no dead-letter queue"):
        life = dead_letters["MessageRetentionPeriod"] + queue["MessageRetentionPeriod"]
        require(window(function) > life, f"{where}: a message can live for {life} s, longer than the window")


def check_stream(where, function, source):
    kept = properties(source["Stream"]).get("RetentionPeriodHours", 24) * 3600
    require(source.get("BisectBatchOnFunctionError") is True, f"{where} does not set BisectBatchOnFunctionError")
    require(source.get("MaximumRetryAttempts", -1) >= 0, f"{where} retries a failing record until it expires")
    require(0 < source.get("MaximumRecordAgeInSeconds", -1) < kept, f"{where}: a record is given up only when the stream has dropped it")
    failure = source.get("DestinationConfig", {}).get("OnFailure", {}).get("Destination")
    require(properties(failure), f"{where} has no destination for records that were given up")
    require("ParallelizationFactor" in source, f"{where} does not say its ParallelizationFactor")
    require(window(function) > kept, f"{where}: the stream keeps a record longer than the window")


def window(function):
    return seconds(variable(function, "IDEMPOTENCY_EXPIRES_AFTER") or "1h")


def check_sources():
    for name, function in FUNCTIONS.items():
        for event, source in function.get("Events", {}).items():
            where, kind, given = f"{name}.{event}", source["Type"], source["Properties"]
            if kind in ("SQS", "Kinesis", "DynamoDB"):
                require(given.get("FunctionResponseTypes") == ["ReportBatchItemFailures"], f"{where} does not report failed items: one repeats all")
            if kind == "SQS":
                check_queue(where, function, given)
            elif kind in ("Kinesis", "DynamoDB"):
                check_stream(where, function, given)
            elif kind == "HttpApi":
                require(timeout(function) < HTTP_API_WAITS, f"{where}: the function may run longer than an HTTP API waits")
                require(target(given.get("ApiId")) in RESOURCES, f"{where} has no API with an authorizer")
            elif kind == "EventBridgeRule":
                require(given.get("DeadLetterConfig"), f"{where} drops events that cannot be delivered")
                require(function.get("DeadLetterQueue"), f"{where}: {name} drops events that fail")


def queries():
    """Returns namespace, dimensions and metric of every query over the functions' own metrics, with its place."""
    # `Function` and `Operation` are reserved words of CloudWatch Metrics Insights: without quotes the query is refused.
    alarm = re.compile(r'SELECT SUM\((\w+)\) FROM SCHEMA\((\w+), ("\w+"(?:, "\w+")*)\) GROUP BY \3 ORDER BY SUM\(\) DESC')
    search = re.compile(r"""SEARCH\('\{(\w+),([\w,]+)\} MetricName="(\w+)"', '(?:Sum|p\d+)'\)""")
    for name, each in ALARMS.items():
        for query in each.get("Metrics", []):
            if "SELECT" in query.get("Expression", ""):
                found = alarm.fullmatch(query["Expression"])
                if require(found, f"{name}: the query is not understood: {query['Expression']}"):
                    yield name, found[2], found[3].replace('"', "").split(", "), found[1]
    for title, expression in expressions():
        if "{AWS/" not in expression:
            found = search.search(expression)
            if require(found, f"dashboard, {title}: the expression is not understood: {expression}"):
                yield f"dashboard, {title}", found[1], found[2].split(","), found[3]


def check_metrics():
    emitted = literals(rust("idempotency-lambda/src/meter", "idempotency-lambda/src/batch"), "[A-Z][A-Za-z]+")
    require({"Executed", "Function", "Operation"} <= emitted, "no metrics were found in the code: this script reads it wrongly")
    namespaces = {space for folder in examples() for space in re.findall(r'to_cloudwatch\(\s*"(\w+)"', rust(f"{folder}/src"))}
    require(namespaces, "no example sends metrics")
    for where, namespace, dimensions, metric in queries():
        require({namespace} == namespaces, f"{where}: the namespace is {namespace}, and the examples send to {sorted(namespaces)}")
        require(dimensions == ["Function", "Operation"], f"{where}: the dimensions are {dimensions}")
        require(metric in emitted, f"{where}: the code emits no metric {metric}")
    for folder in examples():
        require("to_cloudwatch" in rust(f"{folder}/src"), f"{folder} sends no metrics")


def check_alarms():
    seen, queues = set(), set()
    for name, each in ALARMS.items():
        require("TreatMissingData" in each, f"{name} does not say what missing data means")
        require(each.get("AlarmActions"), f"{name} has no action")
        # A metric of the functions is sent only when it happens: a function with few calls has no second minute of data.
        sparse = each.get("Namespace") == "AWS/Lambda" or any("SELECT" in query.get("Expression", "") for query in each.get("Metrics", []))
        require(not sparse or each.get("DatapointsToAlarm") == 1, f"{name} needs {each.get('DatapointsToAlarm')} minutes with data, which few calls do not have")
        metrics = [each] + [query.get("MetricStat", {}).get("Metric", {}) for query in each.get("Metrics", [])]
        seen |= {metric["MetricName"] for metric in metrics if "MetricName" in metric}
        if each.get("MetricName") == "ApproximateNumberOfMessagesVisible":
            queues |= {target(dimension["Value"]) for dimension in each["Dimensions"]}
        for metric in metrics:
            if metric.get("Namespace") == "AWS/DynamoDB":
                require([one["Name"] for one in metric["Dimensions"]] == ["TableName"], f"{name}: {metric['MetricName']} has the dimension TableName alone")
    seen |= {metric for where, *_, metric in queries() if where in ALARMS}
    for metric in ALARMED - seen:
        require(False, f"no alarm watches {metric}")
    sources = {target(source["Properties"]["Queue"]) for each in FUNCTIONS.values() for source in each["Events"].values() if source["Type"] == "SQS"}
    for queue in set(of_type("AWS::SQS::Queue")) - sources - queues:
        require(False, f"no alarm watches the dead letters in {queue}")


def dashboard():
    [body] = [each["DashboardBody"]["Fn::Sub"] for each in of_type("AWS::CloudWatch::Dashboard").values()]
    return body


def widgets():
    return json.loads(dashboard())["widgets"]


def expressions():
    for widget in widgets():
        for metric in widget["properties"].get("metrics", []):
            if "expression" in metric[-1]:
                yield widget["properties"]["title"], metric[-1]["expression"]


def check_dashboard():
    used = set()
    for widget in widgets():
        given = widget["properties"]
        title = given.get("title", widget["type"])
        require(set(widget) <= WIDGET, f"dashboard, {title}: unknown fields {set(widget) - WIDGET}")
        unknown = set(given) - PROPERTIES[widget["type"]]
        require(not unknown, f"dashboard, {title}: unknown properties {unknown}")
        cells = {(x, y) for x in range(widget["x"], widget["x"] + widget["width"]) for y in range(widget["y"], widget["y"] + widget["height"])}
        require(not cells & used, f"dashboard, {title}: it covers another widget")
        require(max(x for x, _ in cells) < 24, f"dashboard, {title}: it is outside of the 24 columns")
        used |= cells
        if widget["type"] == "metric":
            require(given["view"] in VIEWS, f"dashboard, {title}: unknown view {given['view']}")
            require("region" in given and given["metrics"], f"dashboard, {title}: region and metrics are required")
            for metric in given["metrics"]:
                options = metric[-1] if isinstance(metric[-1], dict) else {}
                require(set(options) <= METRIC_OPTIONS, f"dashboard, {title}: unknown options {set(options) - METRIC_OPTIONS}")
                plain = metric[:-1] if options else metric
                require(not plain or (len(plain) >= 4 and len(plain) % 2 == 0), f"dashboard, {title}: {metric} needs namespace, name and dimensions")
                require(plain or "expression" in options, f"dashboard, {title}: {metric} is neither a metric nor an expression")
    for reference in re.findall(r"\$\{(?!!)([\w:]+)", dashboard()):
        require(reference in RESOURCES or reference == "AWS::Region", f"the dashboard names {reference}, which is no resource")
    for alarm in ALARMS:
        require(f"${{{alarm}.Arn}}" in dashboard(), f"the dashboard does not show {alarm}")


def rows(page, heading):
    """Returns the cells of the rows of the tables of a section."""
    text = re.split(rf"^#+ {re.escape(heading)}$", (ROOT / "docs" / page).read_text(), flags=re.M)[1]
    section = re.split(r"^#", text, flags=re.M)[0]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line.startswith("| ")]
    return [row for row in cells if row[0] not in ("metric", "alarm", "widget")]


def names(rows):
    return [name for row in rows for name in re.findall(r"`(\w+)`", row[0])]


def check_pages():
    """Compares what the guide says of metrics, alarms and the dashboard with the code and the template."""
    code = rust("idempotency-lambda/src/meter")
    counted = set(re.findall(r'(?:=>|then_some\(|Some\(|count\() ?"([A-Z]\w+)"|=> Some\("(\w+)"\)', code))
    counted = {one or other for one, other in counted} | literals(code, r"\w+Latency") | literals(rust("idempotency-lambda/src/batch"), "Undecodable|Unprocessed")
    metrics = names(rows("guide/metrics.md", "The metrics"))
    for name in counted ^ set(metrics):
        require(False, f"docs/guide/metrics.md and the code differ in the metric {name}")
    outcomes = set(re.findall(r'CallOutcome::[\w:| ]+=> "(\w+)"', code)) | set(re.findall(r'_ => "(\w+)"', code))
    require("Rejected" in outcomes, "no outcomes were found in the code: this script reads it wrongly")
    require(set(metrics[: len(outcomes)]) == outcomes, f"docs/guide/metrics.md: the first table has other metrics than {sorted(outcomes)}")
    shown = {metric for where, *_, metric in queries() if where == "dashboard, Calls by result"}
    require(shown == outcomes, f"dashboard, Calls by result: the bars differ from the outcomes in {sorted(shown ^ outcomes)}")
    [text] = [widget["properties"]["markdown"] for widget in widgets() if widget["type"] == "text"]
    for outcome in outcomes:
        require(outcome.lower() in text, f"dashboard: its text does not name {outcome.lower()} calls")
    alarms = dict.fromkeys(names(rows("guide/operating.md", "Alarms")))
    require(set(alarms) == set(ALARMS), f"docs/guide/operating.md: the alarms differ from the template in {sorted(set(alarms) ^ set(ALARMS))}")
    watched = {metric: ALARMS[where] for where, *_, metric in queries() if where in ALARMS}
    table = rows("guide/metrics.md", "Alarms")
    require(set(names(table)[: len(watched)]) == set(watched), f"docs/guide/metrics.md: the first alarms are not {sorted(watched)}")
    for name, (_, when) in zip(names(table), table):
        minutes = watched[name]["DatapointsToAlarm"] if name in watched else 1
        require(when.startswith("any") == (name != "TakenOver"), f"docs/guide/metrics.md, {name}: not `any`")
        require(minutes == 1 and "minutes" not in when, f"docs/guide/metrics.md, {name}: the alarm takes {minutes} minutes with data")
    throttled = dict(zip(names(rows("guide/operating.md", "Alarms")), rows("guide/operating.md", "Alarms")))["TableThrottledAlarm"][1]
    spelled = {number: word for number, word in enumerate("zero one two three four five".split())}
    of = ALARMS["TableThrottledAlarm"]
    said = f"{spelled[of['DatapointsToAlarm']]} of {spelled[of['EvaluationPeriods']]} minutes"
    require(said in throttled, f"docs/guide/operating.md, TableThrottledAlarm: write `{said}`")
    for claims in set(re.findall(r"jwt\.claims\.\[([\w, ]+)\]", rust("examples"))):
        said = " and ".join(f"`{claim}`" for claim in claims.split(", "))
        require(f"claims {said}" in FILE.read_text(), f"the comment at the API does not say that the keys hold the claims {said}")
    titles = [widget["properties"]["title"] for widget in widgets() if widget["type"] == "metric"]
    described = [name for row in rows("guide/operating.md", "The dashboard") for name in row[0].split("; ")]
    for name in described:
        require(any(title.startswith(name) for title in titles), f"docs/guide/operating.md: the dashboard has no widget {name}")
    for title in titles:
        require(any(title.startswith(name) for name in described), f"docs/guide/operating.md does not explain the widget {title}")


for check in (check_functions, check_variables, check_table, check_permissions, check_sources, check_metrics, check_alarms, check_dashboard, check_pages):
    check()
for fault in faults:
    print(f"template.yaml: {fault}")
print(f"{len(FUNCTIONS)} functions, {len(ALARMS)} alarms, {len(widgets())} widgets; {len(faults)} faults")
# A traceback exits with 1.
sys.exit(2 if faults else 0)
