"""Stands in for Lambda: starts the real packages of functions as processes, with a Runtime API each, and kills them at their timeout."""

import base64
import collections
import hashlib
import http.server
import io
import json
import os
import pathlib
import queue
import signal
import subprocess
import sys
import threading
import time
import uuid
import zipfile

HERE = pathlib.Path(__file__).resolve().parent


class RuntimeApi(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_):
        """Says nothing: a process that is killed closes its connections."""


class Sandbox:
    """One process of a function. It takes one event at a time."""

    def __init__(self, function, folder, environment, on_line):
        self.function, self.on_line = function, on_line
        self.events, self.ended, self.lines = queue.Queue(), queue.Queue(), collections.deque(maxlen=40)
        self.init_ms, self.cold = None, True
        self.began = time.monotonic()
        # Set when the process asks for its first event, or has ended before.
        self.ready = threading.Event()
        self.server = RuntimeApi(("127.0.0.1", 0), self._handler())
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        environment = environment | {
            "AWS_LAMBDA_RUNTIME_API": f"127.0.0.1:{self.server.server_address[1]}",
            "AWS_LAMBDA_FUNCTION_NAME": function.function_name,
            "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST",
            "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(function.memory_size),
            "LAMBDA_TASK_ROOT": str(folder),
            "_HANDLER": function.handler,
        } | function.environment_vars
        commands = {
            "python3.13": [sys.executable, HERE / "bootstrap.py"],
            "nodejs24.x": ["node", HERE / "bootstrap.cjs"],
            "provided.al2023": [folder / "bootstrap"],
        }
        # A group of its own, so that nothing of it outlives a kill.
        self.process = subprocess.Popen(
            commands[function.run_time], cwd=folder, env=environment, text=True, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        threading.Thread(target=self._wait, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.append(line)
            self.on_line(line)

    def _wait(self):
        self.process.wait()
        self.reader.join()
        self.ready.set()
        self.ended.put((None, None, {"errorType": "Runtime.ExitError", "errorMessage": "the process ended"}))

    def _handler(sandbox):
        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def log_message(self, *_):
                pass

            def reply(self, status, headers=(), body=b""):
                self.send_response(status)
                for name, value in headers:
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_GET(self):
                if sandbox.init_ms is None:
                    sandbox.init_ms = (time.monotonic() - sandbox.began) * 1000
                    sandbox.ready.set()
                event = sandbox.events.get()
                if event is not None:
                    self.reply(200, *event)

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                _, _, _, _, request, end = self.path.split("/")
                sandbox.ended.put((request, end == "response", json.loads(body)))
                self.reply(202)

        return Handler

    def invoke(self, payload):
        """Returns the payload, whether it is a response, and the end of the log with the line REPORT."""
        request, cold, self.cold = str(uuid.uuid4()), self.cold, False
        self.ready.wait(20)
        deadline = time.time() + self.function.timeout
        headers = [
            ("Lambda-Runtime-Aws-Request-Id", request),
            ("Lambda-Runtime-Deadline-Ms", str(int(deadline * 1000))),
            ("Lambda-Runtime-Invoked-Function-Arn", self.function.function_arn),
            ("Content-Type", "application/json"),
        ]
        began = time.monotonic()
        self.events.put((headers, payload))
        try:
            answered, success, result = self.ended.get(timeout=self.function.timeout)
        except queue.Empty:
            self.kill()
            answered, success, result = None, False, {"errorType": "Sandbox.Timedout", "errorMessage": "Task timed out"}
        alive = answered == request
        took = (time.monotonic() - began) * 1000
        init = self.init_ms if cold else None
        report = f"REPORT RequestId: {request}\tDuration: {took:.2f} ms\tBilled Duration: {int(took + (init or 0)) + 1} ms\t"
        report += f"Memory Size: {self.function.memory_size} MB\tMax Memory Used: 1 MB\t"
        if init is not None:
            report += f"Init Duration: {init:.2f} ms\t"
        log = "".join(self.lines)[-3000:] + report + "\n"
        self.lines.clear()
        return alive, request, success, result, log

    def kill(self):
        self.events.put(None)
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.server.shutdown()
        self.server.server_close()


class Lambda:
    """The sandboxes of all functions."""

    def __init__(self, scratch, environment_of, on_line):
        self.scratch, self.environment_of, self.on_line = scratch, environment_of, on_line
        self.idle, self.lock = collections.defaultdict(list), threading.Lock()
        self.all, self.starts = [], 0

    def invoke(self, function, payload):
        """Returns status, headers and body of the reply to Invoke. `function` is moto's description."""
        version = hashlib.sha256(function.code_bytes).hexdigest()
        revision = (function.function_name, version, function.memory_size, json.dumps(function.environment_vars, sort_keys=True))
        with self.lock:
            for other in [other for other in self.idle if other[0] == revision[0] and other != revision]:
                for sandbox in self.idle.pop(other):
                    sandbox.kill()
            sandbox = self.idle[revision].pop() if self.idle[revision] else None
        if sandbox is None:
            folder = self._unpacked(version, function.code_bytes)
            sandbox = Sandbox(function, folder, self.environment_of(function), self.on_line)
            with self.lock:
                self.all.append(sandbox)
                self.starts += 1
        alive, request, success, result, log = sandbox.invoke(payload)
        with self.lock:
            if alive:
                self.idle[revision].append(sandbox)
            else:
                sandbox.kill()
        headers = [("X-Amz-Log-Result", base64.b64encode(log.encode()).decode()), ("x-amzn-RequestId", request)]
        if not success:
            headers.append(("X-Amz-Function-Error", "Unhandled"))
        return 200, headers, json.dumps(result).encode()

    def _unpacked(self, version, code):
        folder = self.scratch / version
        with self.lock:
            if not folder.exists():
                with zipfile.ZipFile(io.BytesIO(code)) as archive:
                    archive.extractall(folder)
                if (folder / "bootstrap").exists():
                    (folder / "bootstrap").chmod(0o755)
        return folder

    def stop(self):
        for sandbox in self.all:
            sandbox.kill()
