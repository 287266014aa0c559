"""How much a run does. The plan is kept with the run, so that a resumed run has the same one."""

# The functions of `calls`: the name, the runtime, and the handler.
CONTESTANTS = {
    "ours": {"label": "`#[idempotent]`, typed", "runtime": "provided.al2023", "handler": "bootstrap"},
    "by-hand": {"label": "by hand, on the AWS SDK", "runtime": "provided.al2023", "handler": "bootstrap"},
    "python": {"label": "Powertools for Python", "runtime": "python3.13", "handler": "handler.handler"},
    "typescript": {"label": "Powertools for TypeScript", "runtime": "nodejs24.x", "handler": "handler.handler"},
}

# The functions of `soak` and `alarms`, all with the program `probe`: the variables, and the timeout in seconds.
PROBES = {
    "probe": {"variables": {}, "timeout": 10},
    "probe-hold": {"variables": {"IDEMPOTENCY_ON_TIMEOUT": "hold"}, "timeout": 3},
    # It has the name of a table that does not exist.
    "probe-missing": {"variables": {}, "timeout": 10},
    # It finds no DynamoDB: nothing listens there.
    "probe-unprotected": {
        "variables": {"IDEMPOTENCY_ON_STORE_ERROR": "run-unprotected", "AWS_ENDPOINT_URL_DYNAMODB": "http://127.0.0.1:1"},
        "timeout": 10,
    },
    # Its role must not update items: the completion is refused.
    "probe-denied": {"variables": {}, "timeout": 10},
}

PROBE_MEMORY = 512

AWS = {
    "architectures": ["arm64", "x86_64"],
    "memory": [128, 512, 1769],
    "cold_starts": 20,
    "calls": 200,
    # Functions that are measured at the same time. A new account may run ten at a time.
    "parallel": 4,
    # One run instead of four for each key layout.
    "quick_conformance": False,
    "soak_keys": 3000,
    "soak_clients": 8,
    # How long the metrics may take to arrive, in seconds.
    "metrics_seconds": 600,
    "poll_seconds": 15,
    # Whether the alarms must also go off.
    "alarm_states": True,
    "profile": "release",
}

# Small numbers, for the stand-ins. The build is for this machine alone.
LOCAL = AWS | {
    "architectures": ["x86_64"],
    "memory": [128, 1769],
    "cold_starts": 2,
    "calls": 5,
    "parallel": 2,
    "quick_conformance": True,
    "soak_keys": 60,
    "metrics_seconds": 30,
    "poll_seconds": 1,
    "alarm_states": False,
    "profile": "debug",
}
