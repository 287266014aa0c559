#!/usr/bin/env bash
# Finds words that CONTRIBUTING.md asks to replace, in every text of the repository, and prints what to write instead.
# A word in backticks or double quotes counts as a quotation.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

found=0

# refuse <words> <advice>: the words are a regular expression, in lower case.
refuse() {
    local line
    while IFS= read -r line; do
        echo "$line"
        echo "    write instead: $2"
        found=1
    done < <(git grep --untracked -niP "(?<![a-z])(?:(?<![\`\"])(?:$1)|(?:$1)(?![\`\"]))(?![a-z])" -- \
        '*.rs' '*.md' '*.sh' '*.py' '*.toml' '*.yaml' '*.yml' '.ci/run' ':!tests/vectors' ':!tests/scripts/words.sh' || true)
}

refuse 'who(?:so)?ever|whomever' "the concrete subject: the caller that, the process that"
refuse 'nobody' "no caller, no process, nothing"
refuse 'somebody|someone|anybody|anyone|everybody|everyone' "the concrete subject: another caller, a reader, every process"
refuse 'whatever' "any, all, everything that; or name the thing"
refuse 'save[ _]for' "except"
refuse '(?:is|are|was|were)[ _]told' "the caller gets, the call returns, the event says"
refuse '(?:is|are|was|were)[ _]over' "has expired, for a lease, a window or a deadline; has ended, for anything else"
refuse '(?:is|are)[ _]to[ _]be' "must be, will be, should be"
refuse 'what[ _](?:it|each|a[ _]write|a[ _]call)[ _](?:comes|came)[ _]to' "the result of"

exit "$found"
