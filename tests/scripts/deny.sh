#!/usr/bin/env bash
# Checks the dependency tree against deny.toml: licences, versions, sources.
#
#     tests/scripts/deny.sh             # without the network
#     tests/scripts/deny.sh advisories  # known vulnerabilities and yanked versions: fetches the RustSec database, in the CI workflow
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source tests/scripts/tools.sh

checks=("$@")
((${#checks[@]} > 0)) || checks=(bans licenses sources)
cargo-deny --locked check "${checks[@]}"
