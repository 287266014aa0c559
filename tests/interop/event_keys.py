"""Writes tests/vectors/python_events.txt: the digest that Python makes of each event in these packages, as Powertools for AWS Lambda does.

Usage: python3 tests/interop/event_keys.py <folder of the package> .. > tests/vectors/python_events.txt
The folders are in registry/src of Cargo's home: aws_lambda_events and lambda_http, in the versions of Cargo.lock.
"""

import hashlib
import json
import pathlib
import sys

print("# The events that other packages ship: package, file, and the MD5 digest of the whole event, by tests/interop/event_keys.py")
for folder in map(pathlib.Path, sys.argv[1:]):
    for path in sorted(folder.rglob("[!.]*.json")):
        event = json.loads(path.read_text(encoding="utf-8"))
        digest = hashlib.md5(json.dumps(event, sort_keys=True).encode()).hexdigest()
        print(folder.name.rsplit("-", 1)[0], path.name, digest)
