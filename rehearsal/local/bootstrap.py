"""Stands in for Lambda's runtime for Python: imports the handler, and gives it each event."""

import importlib
import json
import os
import sys
import time
import urllib.request

API = f"http://{os.environ['AWS_LAMBDA_RUNTIME_API']}/2018-06-01/runtime"
sys.path.insert(0, os.environ["LAMBDA_TASK_ROOT"])
module, name = os.environ["_HANDLER"].rsplit(".", 1)
handler = getattr(importlib.import_module(module), name)


class Context:
    function_name = os.environ["AWS_LAMBDA_FUNCTION_NAME"]

    def __init__(self, headers):
        self.aws_request_id = headers["Lambda-Runtime-Aws-Request-Id"]
        self.invoked_function_arn = headers["Lambda-Runtime-Invoked-Function-Arn"]
        self.deadline_ms = int(headers["Lambda-Runtime-Deadline-Ms"])

    def get_remaining_time_in_millis(self):
        return max(0, self.deadline_ms - int(time.time() * 1000))


while True:
    with urllib.request.urlopen(f"{API}/invocation/next") as event:
        context, payload = Context(event.headers), json.load(event)
    try:
        end, result = "response", handler(payload, context)
    except Exception as error:
        end, result = "error", {"errorType": type(error).__name__, "errorMessage": str(error)}
    data = json.dumps(result).encode()
    urllib.request.urlopen(f"{API}/invocation/{context.aws_request_id}/{end}", data).close()
