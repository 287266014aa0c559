"""Builds the functions and packs each into a zip: those in Rust for each architecture, the others once."""

import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import zipfile

from plan import CONTESTANTS
from state import REPOSITORY, Stop

# The programs in Rust: the manifest, and the arguments that choose the program.
RUST = {
    "ours": ("benches/functions/Cargo.toml", ["--bin", "typed"], "typed"),
    "by-hand": ("benches/by-hand/Cargo.toml", ["--bin", "typed"], "typed"),
    "probe": ("Cargo.toml", ["--package", "probe", "--bin", "probe"], "probe"),
}
PEERS = REPOSITORY / ".tools/rehearsal-peers"
# Lambda has boto3 itself. Powertools' own package has no more than these.
PYTHON_PACKAGES = ("aws_lambda_powertools", "jmespath", "typing_extensions")


def execute(command, environment=None, folder=REPOSITORY, **options):
    """Runs a program in a folder. Its output goes to the terminal."""
    command = list(map(str, command))
    ended = subprocess.run(command, cwd=folder, env=dict(os.environ) | (environment or {}), **options)
    if ended.returncode != 0:
        raise Stop(f"`{' '.join(command)}` ended with {ended.returncode}")
    return ended.stdout


def run(world):
    """Returns the zip of each program: the path, the bytes and the digest."""
    artifacts, folder = {}, world.state.folder / "artifacts"
    folder.mkdir(exist_ok=True)
    for name in RUST:
        for architecture in world.plan["architectures"]:
            target = folder / f"{name}-{architecture}.zip"
            if world.plan["profile"] == "release":
                for_lambda(name, architecture, target)
            else:
                for_this_machine(name, target)
            artifacts[f"{name}-{architecture}"] = described(target)
    for name, packed in (("python", python()), ("typescript", typescript())):
        pack(packed, folder / f"{name}.zip")
        artifacts[name] = described(folder / f"{name}.zip")
    if len({artifact["sha256"] for artifact in artifacts.values()}) != len(artifacts):
        raise Stop(f"two programs have the same zip: {artifacts}")
    return {
        "artifacts": artifacts,
        "commit": text("git", "rev-parse", "HEAD"),
        "changed": bool(text("git", "status", "--porcelain", "--untracked-files=no")),
        "rustc": text("rustc", "--version"),
    }


def text(*command):
    return execute(command, stdout=subprocess.PIPE, text=True).strip()


def for_lambda(name, architecture, target):
    """Builds with cargo-lambda, which links against the glibc of Lambda."""
    manifest, chosen, program = RUST[name]
    out = target.parent / f"{name}-{architecture}"
    flag = {"arm64": "--arm64", "x86_64": "--x86-64"}[architecture]
    triple = {"arm64": "aarch64", "x86_64": "x86_64"}[architecture] + "-unknown-linux-gnu"
    execute(["rustup", "target", "add", triple])
    # In a shell, because the script sets the PATH. It also takes the credentials away, which a build does not need.
    script = 'source tests/scripts/tools.sh && exec cargo lambda build "$@"'
    arguments = ["--release", "--locked", "--manifest-path", manifest, *chosen, flag, "--output-format", "zip", "--lambda-dir", out]
    execute(["bash", "-c", script, "build", *arguments], {"CARGO_TARGET_DIR": str(REPOSITORY / "target/rehearsal" / name)})
    shutil.move(out / program / "bootstrap.zip", target)
    shutil.rmtree(out)


def for_this_machine(name, target):
    """Builds without optimization, in the folder and with the profile of the tests."""
    manifest, chosen, program = RUST[name]
    folder = REPOSITORY / "target"
    environment = {"CARGO_TARGET_DIR": str(folder), "CARGO_PROFILE_DEV_DEBUG": "line-tables-only"}
    execute(["cargo", "build", "--quiet", "--locked", "--manifest-path", manifest, *chosen], environment)
    out = target.with_suffix("")
    out.mkdir(exist_ok=True)
    execute(["strip", "-o", out / "bootstrap", folder / "debug" / program])
    pack(out, target)
    shutil.rmtree(out)


def python():
    """Returns the folder with the function with Powertools for Python, and what it needs."""
    source, out = REPOSITORY / "benches/peers/python", PEERS / "python"
    pinned = [line.strip() for line in (source / "requirements.txt").read_text().splitlines()]
    wanted = [line for line in pinned if line.split("==")[0] in PYTHON_PACKAGES]
    if len(wanted) != len(PYTHON_PACKAGES):
        raise Stop(f"{source}/requirements.txt does not pin all of {PYTHON_PACKAGES}")
    if stale(out, source):
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary", ":all:"]
        execute([*pip, "--target", out, *wanted])
        shutil.copy(source / "handler.py", out)
        installed(out, source)
    return out


def typescript():
    """Returns the folder with the bundle of the function with Powertools for TypeScript."""
    source, out = REPOSITORY / "benches/peers/typescript", PEERS / "typescript"
    if stale(out, source):
        for file in ("package.json", "package-lock.json", "handler.ts"):
            shutil.copy(source / file, out)
        execute(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"], folder=out)
        execute(["npm", "run", "--silent", "build", "--", "--log-level=warning"], folder=out)
        installed(out, source)
    return out / "dist"


def digest_of(source):
    digest = hashlib.sha256()
    for file in sorted(pathlib.Path(source).iterdir()):
        if file.is_file():
            digest.update(file.read_bytes())
    return digest.hexdigest()


def stale(out, source):
    """Returns true, with an empty folder, if the folder was not made from these sources."""
    stamp = out.with_name(out.name + ".installed")
    if stamp.exists() and stamp.read_text() == digest_of(source):
        return False
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    return True


def installed(out, source):
    out.with_name(out.name + ".installed").write_text(digest_of(source))


def pack(folder, target):
    """Packs a folder. The zip of the same files has the same bytes."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for file in sorted(folder.rglob("*")):
            if file.is_dir() or "__pycache__" in file.parts:
                continue
            entry = zipfile.ZipInfo(str(file.relative_to(folder)))
            entry.external_attr = (0o755 if os.access(file, os.X_OK) else 0o644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, file.read_bytes())


def described(path):
    return {"file": path.name, "bytes": path.stat().st_size, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}


def artifact(name, architecture):
    """Returns the name of the zip of a program."""
    return name if CONTESTANTS.get(name, {}).get("runtime", "provided").startswith(("python", "nodejs")) else f"{name}-{architecture}"
