#!/usr/bin/env python3
"""Writes the source of the site into a folder: the pages, the files that they show, and SUMMARY.md.

    tests/scripts/site.py target/book

docs/README.md gives the order. A Markdown file in docs/ that neither it nor the README.md of a folder names is an error. Behind
these pages are the Markdown files elsewhere to which a page links.
Each page has a link to the repository, whose address is that of Cargo.toml. A link to a file that is no page leads there too. Until
the address is set, the file's path stands there instead. A picture is a link to itself, so that it can be opened large.
"""
import os, pathlib, re, shutil, subprocess, sys, tomllib

FENCE = r"^ {0,3}(?P<fence>```|~~~).*?^ {0,3}(?P=fence)[ \t]*$"
LINK = r"(?P<mark>!?)\[(?P<text>(?:[^\[\]]|\[[^\[\]]*\])*)\]\((?P<target>[^()\s]+)\)"
FENCE_OR_LINK = re.compile(f"{FENCE}|{LINK}", re.M | re.S)

FILES = set(subprocess.check_output(["git", "ls-files", "--cached", "--others", "--exclude-standard"], text=True).splitlines())
FRONT, ORDER, SITE = "README.md", "docs/README.md", "docs/site"
REPOSITORY = tomllib.loads(pathlib.Path("Cargo.toml").read_text())["workspace"]["package"]["repository"]
HAS_ADDRESS = not re.match(r"https://[^/]+\.invalid/", REPOSITORY)


def goal(page, target):
    """The file or folder of the repository that a link in `page` leads to, and its anchor; or None, if it leads elsewhere."""
    if re.match(r"[a-z][a-z0-9+.-]*:", target):
        return None
    path, mark, anchor = target.partition("#")
    path = os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page
    if f"{path}/README.md" in FILES:
        path += "/README.md"
    return path, mark + anchor


def linked(page):
    """The Markdown files that `page` links to, in order."""
    links = FENCE_OR_LINK.finditer(pathlib.Path(page).read_text())
    goals = [goal(page, link["target"]) for link in links if link["target"]]
    return [path for path, _ in filter(None, goals) if path.endswith(".md") and path in FILES]


def place(path):
    """Where a page is in the site. A folder's page is its index."""
    return re.sub(r"(^|/)README\.md$", r"\1index.md", path)


def write(page, folder):
    """Writes a page, with its links as the site needs them, and the pictures that it shows."""

    def rewrite(match):
        found = match["target"] and goal(page, match["target"])
        if not found:
            return match[0]
        path, anchor = found
        if match["mark"]:
            os.makedirs(folder / os.path.dirname(path), exist_ok=True)
            shutil.copy(path, folder / path)
            shown = os.path.relpath(path, os.path.dirname(page) or ".")
            return f"[![{match['text']}]({shown})]({shown})"
        if path not in pages:
            if HAS_ADDRESS:
                return f"[{match['text']}]({REPOSITORY}/blob/HEAD/{path}{anchor})"
            return match["text"] if path in match["text"] else f"{match['text']} (`{path}`)"
        return f"[{match['text']}]({os.path.relpath(place(path), os.path.dirname(page) or '.')}{anchor})"

    file = folder / place(page)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(FENCE_OR_LINK.sub(rewrite, pathlib.Path(page).read_text()))


pages, summary = [], []


def add(page, depth=0):
    """Adds a page to the summary. Below a folder's page are the pages of the folder that it lists."""
    if page in pages:
        return
    pages.append(page)
    title = re.search(r"^# (.*)", pathlib.Path(page).read_text(), re.M)[1]
    summary.append(f"{'    ' * depth}- [{title}]({place(page)})")
    if page.endswith("/README.md") and page != ORDER:
        for child in sorted(linked(page)):
            if os.path.dirname(child) == os.path.dirname(page):
                add(child, depth + 1)


add(FRONT)
add(ORDER)
for part in re.split(r"^## ", pathlib.Path(ORDER).read_text(), flags=re.M)[1:]:
    summary.append(f"\n# {part.splitlines()[0]}\n")
    for link in re.finditer(LINK, part):
        path, _ = goal(ORDER, link["target"]) or ("", "")
        if path.startswith("docs/"):
            add(path)
forgotten = [path for path in sorted(FILES) if re.match(r"docs/.*\.md$", path) and path not in pages]
if forgotten:
    sys.exit(f"site.py: {ORDER}, or the README.md of the folder, must name {', '.join(forgotten)}")
summary.append("\n# The project\n")
for page in pages:  # which grows meanwhile
    for path in linked(page):
        add(path)

book = pathlib.Path(sys.argv[1])
shutil.rmtree(book, ignore_errors=True)
shutil.copytree(SITE, book)
settings = (book / "book.toml").read_text()
(book / "book.toml").write_text(settings.replace("[output.html]\n", f'[output.html]\ngit-repository-url = "{REPOSITORY}"\n', 1))
for page in pages:
    write(page, book / "src")
(book / "src/SUMMARY.md").write_text("\n".join(summary) + "\n")
print(f"{len(pages)} pages")
