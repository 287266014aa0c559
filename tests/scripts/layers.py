#!/usr/bin/env python3
"""Checks that the parts of a crate need each other without a circle, so that each has only what is below it.

Run without arguments: fails, and names each circle. With the name of a crate: prints its parts from bottom to top, and what each one needs.

Part A needs part B if a path in A begins in B: `crate::b::..`, `super::..`, or `child::..` after `mod child;`. A name that a file takes from
another one and exports again is a name of both. Tests and documentation do not count.
"""
import pathlib
import re
import sys

# Between the files of a crate, or between its uppermost modules.
CRATES = {
    "dynamodb-lean-client": "files",
    "idempotency-core": "modules",
    "idempotency-dynamodb": "files",
    "idempotency-expression": "files",
    "idempotency-lambda": "modules",
    "idempotency-postgres": "files",
    "idempotency-valkey": "files",
}
NO_CODE = re.compile(r'//[^\n]*|/\*.*?\*/|\br(#*)".*?"\1|"(?:\\.|[^"\\])*"|\'(?:\\[^\']+|[^\\\'])\'', re.S)
TOKEN = re.compile(r"\w+|::|[^\s\w]")
NOT_COMPILED = [list("#[") + ["cfg", "(", name, ")", "]"] for name in ("test", "doctest")]


def end_of_item(tokens, at):
    """Returns where the item ends that begins at `at`: after its `;`, or after its braces."""
    depth = 0
    while at < len(tokens):
        depth += (tokens[at] in ("(", "[", "{")) - (tokens[at] in (")", "]", "}"))
        at += 1
        if depth == 0 and (tokens[at - 1] == ";" or tokens[at - 1] == "}" and tokens[at : at + 1] != [";"]):
            break
    return at


def use_paths(tokens, at, before=()):
    """Returns the paths of a `use` whose tree begins at `at`, and where the tree ends."""
    path, paths = list(before), []
    while tokens[at] not in (";", ",", "}"):
        if tokens[at] == "{":
            while tokens[at] != "}":
                more, at = use_paths(tokens, at + 1, path)
                paths += more
            return paths, at + 1
        if tokens[at] == "as":
            at += 2
            continue
        if tokens[at] != "::":
            path.append(tokens[at])
        at += 1
    return [path] if path != list(before) else [], at


def read(path):
    """Returns the child modules that a file declares, and the paths in it: each with the inline modules that it is in."""
    tokens = TOKEN.findall(NO_CODE.sub(" ", path.read_text()))
    children, found, inline, depth, at = [], [], [], 0, 0
    while at < len(tokens):
        token, after = tokens[at], tokens[at + 1 : at + 3]
        inside = [name for name, _ in inline]
        if tokens[at : at + 7] in NOT_COMPILED:
            at = end_of_item(tokens, at + 7)
            continue
        if token == "mod" and after[1:] == [";"]:
            children.append(after[0])
        elif token == "mod" and after[1:] == ["{"]:
            inline.append((after[0], depth))
        elif token == "use":
            paths, at = use_paths(tokens, at + 1)
            found += [(inside, path) for path in paths]
            continue
        elif after[:1] == ["::"] and tokens[at - 1 : at] not in (["::"], ["in"]):
            end = at + 1
            while tokens[end : end + 1] == ["::"] and re.match(r"\w", tokens[end + 1]):
                end += 2
            found.append((inside, [name for name in tokens[at:end] if name != "::"]))
            at = end
            continue
        depth += (token == "{") - (token == "}")
        if token == "}" and inline and inline[-1][1] == depth:
            inline.pop()
        at += 1
    return children, found


def load(root, path, module=(), files=None):
    """Returns for each module that has a file: the file, its children and its paths."""
    files = {} if files is None else files
    children, found = read(path)
    files[module] = (path, children, found)
    folder = path.parent if path.name in ("lib.rs", "mod.rs") else path.with_suffix("")
    for child in children:
        own = [folder / f"{child}.rs", folder / child / "mod.rs"]
        load(root, next(file for file in own if file.is_file()), (*module, child), files)
    return files


def target(files, module, inside, path):
    """Returns the module of the file in which a path begins. `None` if it begins in another crate, or stays in its own file."""
    here, names = [*module, *inside], list(path)
    if names[0] in ("crate", "self", "super"):
        here = [] if names[0] == "crate" else here
        while names and names[0] in ("crate", "self", "super"):
            here = here[:-1] if names.pop(0) == "super" else here
    elif inside or names[0] not in files[module][1]:
        return None
    while tuple(here) not in files:
        here.pop()
    while names and (*here, names[0]) in files:
        here.append(names.pop(0))
    return tuple(here)


def needs(crate, kind):
    """Returns what each part of a crate needs."""
    root = pathlib.Path(crate, "src")
    files = load(root, root / "lib.rs")
    name = (lambda module: str(files[module][0].relative_to(root))) if kind == "files" else (lambda module: module[0] if module else "lib.rs")
    arrows = {name(module): set() for module in files}
    for module, (_, _, found) in files.items():
        for inside, path in found:
            other = target(files, module, inside, path)
            if other is not None and name(other) != name(module):
                arrows[name(module)].add(name(other))
    return arrows


def reachable(arrows, start):
    seen, left = set(), [start]
    while left:
        for other in arrows[left.pop()] - seen:
            seen.add(other)
            left.append(other)
    return seen


def circles(arrows):
    """Returns the sets of parts that need each other."""
    reach = {part: reachable(arrows, part) for part in arrows}
    return sorted({tuple(sorted(other for other in arrows if other in reach[part] and part in reach[other])) for part in arrows} - {()})


def main():
    if len(sys.argv) > 1:
        arrows = needs(sys.argv[1], CRATES[sys.argv[1]])
        for part in sorted(arrows, key=lambda part: (len(reachable(arrows, part)), part)):
            print(f"{part}: {' '.join(sorted(arrows[part]))}")
        return 0
    found = 0
    for crate, kind in CRATES.items():
        arrows = needs(crate, kind)
        for circle in circles(arrows):
            found = 1
            print(f"{crate}/src: {len(circle)} {kind} need each other:")
            for part in circle:
                print(f"  {part} needs {' '.join(sorted(arrows[part] & set(circle)))}")
    return found


sys.exit(main())
