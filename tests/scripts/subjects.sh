#!/usr/bin/env bash
# Checks the subjects of the commits that a branch adds to the main one; on the main one those of the last 20. Commits before this rule
# are not judged.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

base=$(git merge-base HEAD origin/main 2>/dev/null || true)
if [[ -n $base && $base != "$(git rev-parse HEAD)" ]]; then
    range=("$base..HEAD")
else
    range=(--max-count=20 HEAD)
fi
if [[ $(git rev-parse --is-shallow-repository) == true ]]; then
    echo "a shallow clone: only the subjects of the commits in it are checked"
fi
found=0
while IFS=' ' read -r commit subject; do
    # The host makes the subject of a merge.
    if [[ $subject == 'Merge '* ]]; then continue; fi
    if [[ -z $subject || $subject == *. ]] || ((${#subject} > 72)); then
        echo "$commit has the subject \"$subject\" of ${#subject} characters: write 1 to 72, without a full stop at the end"
        found=1
    fi
done < <(git log --since=2026-11-27T00:00:00Z --format='%h %s' "${range[@]}")
exit "$found"
