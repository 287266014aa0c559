#!/usr/bin/env bash
# Checks every relative link in the Markdown files with its anchor, every path of the code that they name, and every
# `docs/..` path that any file names.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
git ls-files -z --cached --others --exclude-standard | python3 -c '
import pathlib, re, sys

ROOT = pathlib.Path.cwd()
FENCE = re.compile(r"^ {0,3}(```|~~~).*?^ {0,3}\1[ \t]*$", re.M | re.S)
LINK = re.compile(r"!?\[(?:[^\[\]]|\[[^\[\]]*\])*\]\(([^()\s]+)\)")
HEADING = re.compile(r"^#{1,6}\s+(.*?)\s*#*\s*$", re.M)
# A path below docs/ in a comment, a string or an error text.
MENTION = re.compile(r"(?<![\w/.-])/?((?:\.\./)*docs/[\w./-]*\w)")
# A path of the code, in Markdown.
CODE = re.compile(r"`((?:idempotency-\w+|tests|examples|fuzz)/[\w./-]*\w)/?`")
# A changelog and a design record name the paths of their time.
HISTORY = re.compile(r"CHANGELOG\.md$|^docs/design/\d")
TEXT = {".md", ".rs", ".sh", ".py", ".toml", ".yaml", ".yml", ".txt", ""}


def anchors(path):
    """The anchors that GitHub gives to the headings of a file."""
    seen, found = {}, set()
    for heading in HEADING.findall(FENCE.sub("", path.read_text())):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
        anchor = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
        count = seen.get(anchor, 0)
        seen[anchor] = count + 1
        found.add(f"{anchor}-{count}" if count else anchor)
    return found


broken, links = [], 0
for name in sys.stdin.read().split("\0"):
    path = ROOT / name
    if not name or path.suffix not in TEXT or not path.is_file():
        continue
    try:
        text = path.read_text()
    except UnicodeDecodeError:
        continue
    if path.suffix == ".md":
        for target in LINK.findall(FENCE.sub("", text)):
            if re.match(r"[a-z][a-z0-9+.-]*:", target):
                continue
            links += 1
            file, _, anchor = target.partition("#")
            goal = (path.parent / file).resolve() if file else path
            if not goal.exists():
                broken.append(f"{name}: {target}: there is no such file")
            elif anchor and goal.suffix == ".md" and anchor not in anchors(goal):
                broken.append(f"{name}: {target}: the file has no such heading")
    if not HISTORY.search(name) and name != "tests/scripts/links.sh":
        code = CODE.findall(text) if path.suffix == ".md" else []
        for mention in MENTION.findall(text) + code:
            links += 1
            goal = mention.replace("../", "").rstrip(".")
            if not (ROOT / goal).exists():
                broken.append(f"{name}: {mention}: there is no such file")

for line in broken:
    print(line)
print(f"{links} links, {len(broken)} of them broken")
sys.exit(bool(broken) or links == 0)
'
