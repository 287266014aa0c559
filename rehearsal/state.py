"""What is known of a run: one JSON file in a folder of its own, which each step replaces as a whole."""

import datetime
import json
import os
import pathlib

ROOT = pathlib.Path(__file__).resolve().parent
REPOSITORY = ROOT.parent


class Stop(Exception):
    """The run cannot go on. The text says why, and what to do."""


def now():
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="milliseconds")


def write(path, text):
    """Replaces a file as a whole: a process that is killed leaves the old one or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    with open(partial, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)


class State:
    """The file. `data["phases"][name]` has what a phase found, and `ended` when it is done."""

    def __init__(self, folder, data):
        self.folder, self.data = folder, data

    @classmethod
    def create(cls, runs, data):
        folder = runs / data["run"]
        if folder.exists():
            raise Stop(f"there is a run `{data['run']}` already: resume or remove it")
        state = cls(folder, data | {"phases": {}, "failures": []})
        state.save()
        return state

    @classmethod
    def load(cls, runs, run):
        file = runs / run / "state.json"
        if not file.exists():
            raise Stop(f"there is no {file}: give --account and --region to remove a run without it")
        return cls(file.parent, json.loads(file.read_text()))

    def save(self):
        write(self.folder / "state.json", json.dumps(self.data, indent=1) + "\n")

    def phase(self, name):
        """Returns what is known of a phase. Changes need `save`."""
        return self.data["phases"].setdefault(name, {})
