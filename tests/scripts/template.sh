#!/usr/bin/env bash
# Checks template.yaml: cfn-lint, then template.py against the code, then that the picture of the dashboard is up to date.
# After a change of the dashboard: `tests/scripts/dashboard.py docs/assets/dashboard.jsonl docs/assets/dashboard.svg`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source tests/scripts/tools.sh

cfn-lint -- template.yaml
"$tools_root/python/bin/python3" tests/scripts/template.py
tests/scripts/template-faults.sh

drawn=$(mktemp)
trap 'rm -f "$drawn"' EXIT
tests/scripts/dashboard.py docs/assets/dashboard.jsonl "$drawn"
cmp "$drawn" docs/assets/dashboard.svg || {
    echo "template.sh: docs/assets/dashboard.svg is not what template.yaml draws: draw it again" >&2
    exit 1
}
