#!/usr/bin/env python3
"""Plays docs/guide/tutorial.md from top to bottom as its reader does, and fails at the first place where the page is not true.

It makes the files that the page shows, applies its differences, runs its commands in their order, and compares what they print. A failure
shows what to write. In the page:

- A block of code belongs to the file that the line before it names last. A block `diff` changes that file.
- In a block `console` a line with `$ ` is a command, and the others are what it prints. A line `..` stands for lines that are left out.
- After "in a second terminal" a command keeps running.
- Times, spans of time, owners, and the request ids of the local Lambda differ in each run: they are compared by their form.
"""
import os, pathlib, re, signal, socket, subprocess, sys, tempfile, threading, time

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/guide/tutorial.md"
WORDS = 3000
# How long one command may take: it compiles.
LIMIT = 900
# What cargo says of its own work.
CARGO = re.compile(r" *(Adding|Blocking|Compiling|Finished|Locking|Running|Updating)\b")
DIFFERS = [
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "TIME"),
    (r"\b[0-9a-f]{8}-0000-4000-8000-[0-9a-f]{12}\b", "REQUEST"),
    (r"(?<=owner {8})[0-9a-f]{32}\b", "OWNER"),
    (r"\b\d+(\.\d+)?(ms|s|m|h|(day|month|year)s?)\b( \d+(ms|s|m|h|(day|month|year)s?)\b)*", "SPAN"),
    (r"\b\d{10,}\b", "NUMBER"),
]


def fail(line, text):
    sys.exit(f"tutorial.py: {PAGE.relative_to(ROOT)}:{line}: {text}")


def compared(text):
    """A printed line without what differs in each run."""
    for pattern, name in DIFFERS:
        text = re.sub(pattern, name, text)
    return text.rstrip()


def fits(expected, printed):
    """True if the printed lines are the expected ones, where `..` stands for any number of lines."""
    if not expected:
        return not printed
    if expected[0] == "..":
        return any(fits(expected[1:], printed[skipped:]) for skipped in range(len(printed) + 1))
    return bool(printed) and compared(expected[0]) == compared(printed[0]) and fits(expected[1:], printed[1:])


class Terminal:
    """A shell that keeps its folder and variables."""

    def __init__(self, folder, variables):
        self.shell = subprocess.Popen(
            ["bash"], cwd=folder, env=variables, text=True, start_new_session=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )

    def run(self, command):
        """The lines that a command prints."""
        end = "-- the end of a command --"
        self.shell.stdin.write(f"{command} </dev/null\nprintf '\\n%s\\n' '{end}'\n")
        self.shell.stdin.flush()
        guard = threading.Timer(LIMIT, self.close)
        guard.start()
        lines = []
        for line in iter(self.shell.stdout.readline, ""):
            if line.rstrip("\n") == end:
                break
            lines.append(line.rstrip("\n"))
        guard.cancel()
        # The empty line before the mark, if the command's last line was whole.
        return lines[:-1] if lines and not lines[-1] else lines

    def start(self, command, count):
        """The first lines that a command prints, which then keeps running."""
        self.shell.stdin.write(f"exec {command} </dev/null\n")
        self.shell.stdin.flush()
        return [self.shell.stdout.readline().rstrip("\n") for _ in range(count)]

    def close(self):
        try:
            os.killpg(self.shell.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def blocks(page):
    """The number, the language, the lines and the paragraph before each block of the page."""
    paragraph, ended, block, language, began = "", False, None, "", 0
    for number, line in enumerate(page.splitlines(), 1):
        if block is None and line.startswith("```"):
            block, language, began = [], line[3:], number
        elif block is not None and line == "```":
            yield began, language, block, paragraph
            block, paragraph = None, ""
        elif block is not None:
            block.append(line)
        elif line:
            paragraph, ended = line if ended else f"{paragraph} {line}", False
        else:
            ended = True


def changed(number, text, block):
    """The text after a difference. Its parts are divided by `@@`; what a part changes must be in the text once."""
    for part in "\n".join(block).split("\n@@\n"):
        before, after = ("".join(line[1:] + "\n" for line in part.split("\n") if line[:1] in side) for side in (" -", " +"))
        if text.count(before) != 1:
            fail(number, f"the file does not have these lines once:\n{before}")
        text = text.replace(before, after)
    return text


def play(page, scratch):
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target").resolve()
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "IDEMPOTENCY_"))}
    # The project shares what it compiles with the workspace, as in tests/scripts/templates.sh.
    variables.pop("RUST_BACKTRACE", None)
    variables |= {"CARGO_TARGET_DIR": str(target), "CARGO_PROFILE_DEV_DEBUG": "0", "CARGO_INCREMENTAL": "0", "CARGO_TERM_COLOR": "never"}
    profile = re.search(r'^\[profile\.dev\.package\."\*"\]\n.*?\n\n', (ROOT / "Cargo.toml").read_text(), re.M | re.S)[0]
    for crate in sorted(folder.name for pattern in ("dynamodb-*", "idempotency-*") for folder in ROOT.glob(pattern)):
        profile += f"[profile.dev.package.{crate}]\ndebug-assertions = true\noverflow-checks = true\n"
    (scratch / ".cargo").mkdir()
    (scratch / ".cargo/config.toml").write_text(profile)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])

    def here(text):
        """Names of the page as they are here: the folder of the checkout, that of what was compiled, the port."""
        for name, value in (("target/debug/charge", str(target / "debug/charge")), ("$PWD/../idempotency/target", str(target)),
                            ("../idempotency", str(ROOT)), ("127.0.0.1:8000", f"127.0.0.1:{port}"), ("--port 8000", f"--port {port}")):
            text = text.replace(name, value)
        return text

    first, others, project = Terminal(scratch, variables), [], scratch / "charge"
    try:
        for number, language, block, paragraph in blocks(page):
            if language == "console":
                second = "second terminal" in paragraph
                for command, expected in commands(number, block):
                    print(f"$ {command}", flush=True)
                    if command.startswith("git clone "):
                        continue
                    if second:
                        others.append(Terminal(project, variables | {"PATH": first.run("echo $PATH")[0]}))
                        printed = others[-1].start(here(command), len(expected) - expected.count(".."))
                    else:
                        printed = first.run(here(command))
                    expected = [here(line) for line in expected]
                    printed = [line for line in printed if not CARGO.match(line)]
                    if not fits(expected, printed):
                        fail(number, f"`{command}` does not print this. It prints:\n" + "\n".join(printed))
                continue
            names = re.findall(r"`([\w./-]+\.\w+)`", paragraph)
            if not names:
                fail(number, "the paragraph before this code names no file")
            file = project / names[-1]
            text = changed(number, file.read_text(), block) if language == "diff" else "\n".join(block) + "\n"
            file.write_text(here(text) if file.name == "Cargo.toml" else text)
            if file.suffix == ".rs" and (project / "src/main.rs").exists():
                formatted = subprocess.run(["rustfmt", "--check", "--edition", "2024", file], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
                if formatted.returncode:
                    fail(number, f"rustfmt writes this code in another form:\n{formatted.stdout}")
            if file.name == "Cargo.toml":
                # The versions of the other steps.
                (project / "Cargo.lock").write_text((ROOT / "Cargo.lock").read_text())
    finally:
        for terminal in (first, *others):
            terminal.close()


def commands(number, block):
    """The commands of a block, each with the lines that it prints."""
    found = []
    for line in block:
        if line.startswith("$ "):
            found.append((line[2:], []))
        elif found:
            found[-1][1].append(line)
        else:
            fail(number, "the block does not begin with a command")
    return found


page = PAGE.read_text()
words = len(page.split())
if words > WORDS:
    fail(1, f"the page has {words} words, and may have {WORDS}")
began = time.monotonic()
with tempfile.TemporaryDirectory() as scratch:
    play(page, pathlib.Path(scratch))
print(f"the page is true: {words} words, {time.monotonic() - began:.0f} s")
