"""Stands in for AWS, at one address on loopback. Control requests go to moto, items of DynamoDB to the embedded database of the
testkit, and invocations to processes of this machine. The permissions of functions on items are evaluated."""

import fnmatch
import http.client
import json
import logging
import os
import re
import threading
import uuid
import warnings
from datetime import datetime, timedelta, timezone
from urllib.parse import unquote

# Before moto is loaded.
os.environ |= {"AWS_ACCESS_KEY_ID": "local", "AWS_SECRET_ACCESS_KEY": "local", "MOTO_IAM_LOAD_MANAGED_POLICIES": "true"}

from moto.awslambda.models import lambda_backends
from moto.cloudwatch.models import CloudWatchBackend, cloudwatch_backends
from moto.dynamodb.models import dynamodb_backends
from moto.dynamodb.models.table import Table
from moto.iam.models import Role, iam_backends
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server

from processes import Lambda

ACCOUNT, REGION = "123456789012", "eu-central-1"
# Requests for tables: moto's. All others are for items.
OF_TABLES = ("Table", "TimeToLive", "ContinuousBackups", "Resource", "Limits", "Endpoints")
INVOKE = re.compile(r"/2015-03-31/functions/([^/]+)/invocations$")
SELECT = re.compile(r'SELECT SUM\((\w+)\) FROM SCHEMA\((\w+), "Function", "Operation"\) GROUP BY')


class Quiet(WSGIRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log(self, *_):
        pass


class Services:
    def __init__(self, database, scratch):
        self.database = database
        self.moto = DomainDispatcherApplication(create_backend_app)
        self.made, self.lock, self.local = set(), threading.Lock(), threading.local()
        self.lambda_ = Lambda(scratch, self._environment_of, self._metrics_of)
        self.roles = {}
        # The number of requests that reached the stand-ins, and of write units of items.
        self.requests, self.write_units, self.read_units = 0, 0, 0
        # It says that it makes no alarms.
        logging.getLogger("moto").setLevel(logging.ERROR)
        warnings.filterwarnings("ignore", message=".*AWS::CloudWatch::Alarm.*")
        CloudWatchBackend.get_metric_data = with_queries(CloudWatchBackend.get_metric_data)
        Table.create_from_cloudformation_json = with_expiry(Table.create_from_cloudformation_json)
        Role.create_from_cloudformation_json = with_permissions(Role.create_from_cloudformation_json)
        self.server = make_server("127.0.0.1", 0, self._serve, threaded=True, request_handler=Quiet)
        self.endpoint = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def stop(self):
        self.lambda_.stop()
        self.server.shutdown()

    def _serve(self, environ, start_response):
        self.requests += 1
        operation = environ.get("HTTP_X_AMZ_TARGET", "").removeprefix("DynamoDB_20120810.")
        invoked = INVOKE.match(unquote(environ["PATH_INFO"]))
        if invoked:
            function = lambda_backends[ACCOUNT][REGION].get_function(invoked[1])
            reply = self.lambda_.invoke(function, body(environ))
        elif "DynamoDB_" in environ.get("HTTP_X_AMZ_TARGET", "") and not any(word in operation for word in OF_TABLES):
            status, headers, content = self._items(operation, body(environ), environ)
            # The clients take no response without it for one of DynamoDB.
            reply = status, [*headers, ("x-amzn-RequestId", str(uuid.uuid4()))], content
        else:
            return self.moto(environ, start_response)
        status, headers, content = reply
        start_response(f"{status} .", [*headers, ("Content-Length", str(len(content)))])
        return [content]

    def _items(self, operation, content, environ):
        request = json.loads(content)
        signer = re.search(r"Credential=([^/]+)/", environ.get("HTTP_AUTHORIZATION", ""))
        role = self.roles.get(signer and signer[1])
        for name in tables_of(request):
            table = dynamodb_backends[ACCOUNT][REGION].tables.get(name)
            if table is None:
                return refused("ResourceNotFoundException", f"Requested resource not found: {name}")
            if role is not None and not allowed(role, operation, request, table):
                return refused("AccessDeniedException", f"{role.name} is not authorized to perform dynamodb:{operation}")
            self._make(table)
        size = len(content) / 1024
        if operation in ("PutItem", "UpdateItem", "DeleteItem", "TransactWriteItems"):
            self.write_units += int(size) + 1
        else:
            self.read_units += 1
        return self._forward(operation, content)

    def _forward(self, operation, content):
        """Sends a request to the embedded database, on the connection of this thread."""
        headers = {
            "Content-Type": "application/x-amz-json-1.0",
            "X-Amz-Target": f"DynamoDB_20120810.{operation}",
            "X-Amz-Date": "20260101T000000Z",
            # The database looks at its form alone.
            "Authorization": f"AWS4-HMAC-SHA256 Credential=local/20260101/{REGION}/dynamodb/aws4_request, SignedHeaders=host, Signature=0",
        }
        connection = getattr(self.local, "connection", None)
        if connection is None:
            connection = self.local.connection = http.client.HTTPConnection(self.database)
        try:
            connection.request("POST", "/", content, headers)
            reply = connection.getresponse()
            text = reply.read()
        except (http.client.HTTPException, OSError):
            connection.close()
            raise
        return reply.status, [("Content-Type", reply.headers["Content-Type"])], text

    def _make(self, table):
        """Makes the table in the embedded database, with the keys that the stack gave it."""
        with self.lock:
            if table.table_arn in self.made:
                return
            definition = {
                "TableName": table.name,
                "KeySchema": table.schema,
                "AttributeDefinitions": table.attr,
                "BillingMode": "PAY_PER_REQUEST",
            }
            status, _, text = self._forward("CreateTable", json.dumps(definition).encode())
            if status != 200:
                raise RuntimeError(f"the embedded database made no table: {text}")
            self.made.add(table.table_arn)

    def _environment_of(self, function):
        """Returns the variables that Lambda sets. The credentials stand for the function's role."""
        role = iam_backends[ACCOUNT]["aws"].get_role_by_arn(function.role)
        self.roles[f"ROLE{role.id}"] = role
        return {
            "PATH": os.environ["PATH"],
            "AWS_REGION": REGION,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_ACCESS_KEY_ID": f"ROLE{role.id}",
            "AWS_SECRET_ACCESS_KEY": "local",
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
            "NO_PROXY": "127.0.0.1",
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    def _metrics_of(self, line):
        """Makes metrics of a line in the embedded metric format, as CloudWatch Logs does."""
        if not line.startswith("{") or '"_aws"' not in line:
            return
        values = json.loads(line)
        for directive in values["_aws"]["CloudWatchMetrics"]:
            dimensions = [{"Name": name, "Value": values[name]} for name in directive["Dimensions"][0]]
            data = []
            for metric in directive["Metrics"]:
                value = values[metric["Name"]]
                value = sum(value) if isinstance(value, list) else value
                data.append({"MetricName": metric["Name"], "Dimensions": dimensions, "Value": value})
            cloudwatch_backends[ACCOUNT][REGION].put_metric_data(directive["Namespace"], data)


def body(environ):
    return environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))


def refused(code, message):
    text = json.dumps({"__type": f"com.amazonaws.dynamodb.v20120810#{code}", "message": message})
    return 400, [("Content-Type", "application/x-amz-json-1.0")], text.encode()


def tables_of(request):
    """Returns the names of the tables of a request."""
    if "TableName" in request:
        return {request["TableName"]}
    transaction = request.get("TransactItems", [])
    return {part["TableName"] for item in transaction for part in item.values()} | set(request.get("RequestItems", {}))


def allowed(role, operation, request, table):
    """Evaluates what the role's policies say of this request: the action, and the leading key."""
    documents = [*role.policies.values(), *(version.document for policy in role.permissions for version in policy.versions)]
    documents = [json.loads(document) if isinstance(document, str) else document for document in documents]
    hash_key = next(key["AttributeName"] for key in table.schema if key["KeyType"] == "HASH")
    item = request.get("Item") or request.get("Key") or {}
    leading = item.get(hash_key, {}).get("S", "")
    granted = False
    for document in documents:
        for statement in document["Statement"]:
            actions = statement["Action"]
            if f"dynamodb:{operation}" not in ([actions] if isinstance(actions, str) else actions):
                continue
            if statement["Effect"] == "Deny":
                return False
            if statement["Resource"] not in (table.table_arn, "*"):
                continue
            patterns = statement.get("Condition", {}).get("ForAllValues:StringLike", {}).get("dynamodb:LeadingKeys", ["*"])
            granted |= any(fnmatch.fnmatchcase(leading, pattern) for pattern in patterns)
    return granted


def with_expiry(original):
    """Returns moto's way to make a table of a stack, with the two properties that moto leaves out."""

    def create(cls, resource_name, cloudformation_json, account_id, region_name, **others):
        table = original(resource_name, cloudformation_json, account_id, region_name, **others)
        properties = cloudformation_json["Properties"]
        expiry = properties["TimeToLiveSpecification"]
        if expiry["Enabled"] in (True, "true"):
            table.ttl = {"TimeToLiveStatus": "ENABLED", "AttributeName": expiry["AttributeName"]}
        if properties["PointInTimeRecoverySpecification"]["PointInTimeRecoveryEnabled"] in (True, "true"):
            recovery = table.continuous_backups["PointInTimeRecoveryDescription"]
            recovery["PointInTimeRecoveryStatus"] = "ENABLED"
        return table

    return classmethod(create)


def with_permissions(original):
    """Returns moto's way to make a role of a stack, with the policies of the account that moto leaves out."""

    def create(cls, resource_name, cloudformation_json, account_id, region_name, **others):
        role = original(resource_name, cloudformation_json, account_id, region_name, **others)
        policies = iam_backends[account_id]["aws"].managed_policies
        role.permissions = [policies[arn] for arn in cloudformation_json["Properties"]["ManagedPolicyArns"]]
        return role

    return classmethod(create)


def with_queries(original):
    """Returns moto's `get_metric_data` with the queries of the alarms, which moto does not evaluate."""

    def get_metric_data(self, queries, start_time, end_time, scan_by="TimestampAscending"):
        results = []
        for query in queries:
            expression = query.get("Expression", "")
            if selected := SELECT.match(expression):
                values = [
                    float(datum.value)
                    for datum in self.get_all_metrics()
                    if (datum.namespace, datum.name) == (selected[2], selected[1])
                    and {dimension.name for dimension in datum.dimensions} == {"Function", "Operation"}
                ]
                moment = datetime.now(timezone.utc) - timedelta(seconds=1)
                results.append(
                    {"id": query["Id"], "label": selected[1], "values": values, "timestamps": [moment] * len(values), "status_code": "Complete"}
                )
            elif expression.startswith("FILL"):
                results.append({"id": query["Id"], "label": query["Id"], "values": [], "timestamps": [], "status_code": "Complete"})
            elif expression:
                raise ValueError(f"the stand-in does not know the query {expression}")
            else:
                results += original(self, [query], start_time, end_time, scan_by)
        return results

    return get_metric_data
