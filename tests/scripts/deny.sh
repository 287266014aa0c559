#!/usr/bin/env bash
# Checks the dependency tree against deny.toml: licences, versions, sources.
# Advisories need the RustSec database, which this script does not fetch; the CI workflow does.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source tests/scripts/tools.sh

cargo-deny --locked check bans licenses sources
