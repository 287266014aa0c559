#!/usr/bin/env bash
# Installs the peers of the benchmark into .tools/peers of the checkout: Powertools for AWS Lambda in Python and in TypeScript, each
# with AWS's own runtime interface client, as Lambda starts them. It installs nothing twice. `.tools/peers/contestants.json` then has the
# command, the directory, the environment and the versions of each.
#
# Node comes from npm, in the version of the runtime `nodejs24.x`. Its runtime interface client has a part in C++: that needs `cmake`, a
# C++ compiler, `make` and `xz`. Python is $PEERS_PYTHON, or one that this machine has (3.11 or newer). Those of the distribution come
# first: they are compiled with profile-guided optimization, as Lambda's is.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
root="$(cd "$here/../.." && pwd)/.tools/peers"

fail() { echo "setup.sh: $*" >&2; exit 1; }

# is_python <command>: returns true if it is there, and new enough. It is run, because the name can be one of a version manager that
# has not chosen this version.
is_python() {
    "$1" -c 'import sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

find_python() {
    local python candidates=({/usr/bin/,}python3{.14,.13,.12,.11,})
    if [[ -n ${PEERS_PYTHON:-} ]]; then candidates=("$PEERS_PYTHON"); fi
    for python in "${candidates[@]}"; do
        if is_python "$python"; then
            echo "$python"
            return
        fi
    done
    fail "no Python 3.11 or newer among: ${candidates[*]}; install one, or set PEERS_PYTHON to one"
}

install_python() {
    local python wanted
    python=$(find_python)
    wanted="$("$python" --version), $(sha256sum <"$here/python/requirements.txt")"
    if [[ "$(cat "$root/python/installed" 2>/dev/null || true)" == "$wanted" ]]; then return; fi
    echo "installing Powertools for Python into .tools/peers/python, with $("$python" --version)"
    rm -rf "$root/python"
    # Without pip, because Debian's Python has none. Another Python's pip installs for it.
    "$python" -m venv --without-pip "$root/python"
    python3 -m pip --python "$root/python/bin/python" --disable-pip-version-check install --quiet --no-deps \
        --only-binary :all: -r "$here/python/requirements.txt"
    echo "$wanted" >"$root/python/installed"
}

install_typescript() {
    local wanted node log="$root/typescript-build.log"
    wanted="$(cat "$here"/typescript/* | sha256sum)"
    if [[ "$(cat "$root/typescript/installed" 2>/dev/null || true)" == "$wanted" ]]; then return; fi
    command -v npm >/dev/null || fail "no npm: install Node"
    for tool in cmake make c++ xz; do
        command -v "$tool" >/dev/null || fail "no $tool, which the build of aws-lambda-ric needs"
    done
    echo "installing Powertools for TypeScript into .tools/peers/typescript"
    rm -rf "$root/typescript"
    mkdir -p "$root/typescript"
    cp "$here"/typescript/{package.json,package-lock.json,handler.ts} "$root/typescript/"
    (
        cd "$root/typescript"
        npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
        node=$(echo "$PWD"/node_modules/node-linux-*)
        [[ -x $node/bin/node ]] || fail "npm has no Node for this machine ($(uname -sm))"
        ln -s "$node/bin/node" node
        # Scripts of packages run for this one alone. The headers are those of the Node that will load it.
        export npm_config_nodedir="$node"
        npm rebuild aws-lambda-ric --no-audit --no-fund --foreground-scripts >"$log" 2>&1 ||
            { tail -n 20 "$log" >&2; fail "aws-lambda-ric could not be built: all of it is in $log"; }
        [[ -f node_modules/aws-lambda-ric/rapid-client.node ]] || fail "aws-lambda-ric has no rapid-client.node: see $log"
        npm run --silent build -- --log-level=warning
    )
    echo "$wanted" >"$root/typescript/installed"
}

mkdir -p "$root"
install_python
install_typescript
# A copy, so that Python's compiled file is not left in the checkout.
mkdir -p "$root/python/task"
cp "$here/python/handler.py" "$root/python/task/"

# How the runner starts each, and the versions for the results.
"$root/python/bin/python" - "$root" <<'EOF'
import importlib.metadata, json, pathlib, platform, subprocess, sys

root = pathlib.Path(sys.argv[1])
typescript = root / "typescript"


def npm(name):
    return json.loads((typescript / "node_modules" / name / "package.json").read_text())["version"]


def contestant(language, directory, command, versions):
    return {
        "name": f"powertools-{language.lower()}",
        "label": f"Powertools for {language}",
        "language": language,
        "kind": "peer",
        "event": "order",
        "group": "typed",
        "command": list(map(str, command)),
        "directory": str(directory),
        # What Lambda sets for these runtimes, beside what it sets for every function.
        "env": {"_HANDLER": "handler.handler", "LAMBDA_TASK_ROOT": str(directory)},
        "versions": versions,
        "parts": ["warm", "cold", "small"],
    }


contestants = [
    contestant(
        "Python",
        root / "python/task",
        [root / "python/bin/python", "-m", "awslambdaric", "handler.handler"],
        {"CPython": platform.python_version()}
        | {name: importlib.metadata.version(name) for name in ("aws-lambda-powertools", "boto3", "awslambdaric")},
    ),
    contestant(
        "TypeScript",
        typescript / "dist",
        [typescript / "node", typescript / "node_modules/aws-lambda-ric/index.mjs", "handler.handler"],
        {"Node": subprocess.check_output([typescript / "node", "--version"], text=True).strip().removeprefix("v")}
        | {name: npm(name) for name in ("@aws-lambda-powertools/idempotency", "@aws-sdk/client-dynamodb", "aws-lambda-ric", "esbuild")},
    ),
]
(root / "contestants.json").write_text(json.dumps(contestants, indent=2) + "\n")
EOF
