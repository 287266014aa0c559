"""Rehearses the rehearsal: every phase against local stand-ins, with a kill in the middle. `rehearsal/run --local` starts it."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

# No way to AWS, for this process and all that it starts.
for name in [name for name in os.environ if name.startswith("AWS_")]:
    del os.environ[name]
os.environ |= {"NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}
os.environ |= {"AWS_EC2_METADATA_DISABLED": "true", "AWS_CONFIG_FILE": os.devnull, "AWS_SHARED_CREDENTIALS_FILE": os.devnull}

from services import ACCOUNT, REGION, Services

MAIN = pathlib.Path(__file__).resolve().parent.parent / "main.py"
REPOSITORY = MAIN.parent.parent
RUN = "local"


def fail(text):
    sys.exit(f"rehearsal/run --local: {text}")


def free_port():
    import socket

    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        return unused.getsockname()[1]


class Rehearsal:
    def __init__(self, scratch, services):
        self.runs, self.services = scratch / "runs", services

    def command(self, *arguments, account=ACCOUNT):
        options = ["--endpoint", self.services.endpoint, "--runs", self.runs]
        if account is not None:
            options += ["--account", account, "--region", REGION]
        return [sys.executable, MAIN, *options, *arguments]

    def ends(self, expected, text, *arguments, **options):
        """Runs the rehearsal, and compares its exit code and what it says."""
        ended = subprocess.run(self.command(*arguments, **options), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if ended.returncode != expected or text not in ended.stdout:
            print(ended.stdout)
            fail(f"{arguments} ended with {ended.returncode}, not with {expected} and `{text}`")

    def state(self):
        file = self.runs / RUN / "state.json"
        return json.loads(file.read_text()) if file.exists() else {"phases": {}}

    def refusals(self):
        """Nothing begins without the account, a region and a yes, nor where something else has the name."""
        import boto3

        self.ends(1, "--account needs", "--run", RUN, "--yes", account=None)
        self.ends(1, "--endpoint is for the stand-ins", "--run", RUN, "--yes", account="999999999999")
        self.ends(1, "not confirmed", "--run", RUN)
        if self.state()["phases"]:
            fail("a run began without a yes")
        cloudformation = boto3.client(
            "cloudformation", REGION, endpoint_url=self.services.endpoint, aws_access_key_id="local", aws_secret_access_key="local"
        )
        template = json.dumps({"Resources": {"Topic": {"Type": "AWS::SNS::Topic"}}})
        cloudformation.create_stack(StackName=f"rehearsal-{RUN}", TemplateBody=template)
        self.ends(1, "not of this run", "remove", RUN, "--yes")
        if not cloudformation.describe_stacks(StackName=f"rehearsal-{RUN}")["Stacks"]:
            fail("the stack of another owner was deleted")
        return cloudformation

    def killed(self, *arguments):
        """Resumes the run, and kills it while it measures calls."""
        process = subprocess.Popen(self.command(*arguments, account=None), stdin=subprocess.DEVNULL, start_new_session=True)
        while len(self.state()["phases"].get("calls", {}).get("cells", {})) < 3:
            if process.poll() is not None:
                fail(f"the run ended with {process.returncode} before it measured three functions")
            time.sleep(0.02)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return self.state()


def rehearse(scratch):
    began = time.monotonic()
    # Built first, so that the database starts at once.
    database = ["cargo", "build", "--quiet", "--locked", "-p", "idempotency-testkit", "--example", "dynamodb"]
    subprocess.run(database, cwd=REPOSITORY, check=True)
    port = free_port()
    program = REPOSITORY / "target/debug/examples/dynamodb"
    database = subprocess.Popen([program, "--port", str(port), "--table", "unused"], stdout=subprocess.DEVNULL)
    services = None
    try:
        for _ in range(100):
            if subprocess.call(["bash", "-c", f"exec 3<>/dev/tcp/127.0.0.1/{port}"], stderr=subprocess.DEVNULL) == 0:
                break
            time.sleep(0.1)
        services = Services(f"127.0.0.1:{port}", scratch / "packages")
        local = Rehearsal(scratch, services)

        print("== what must be refused", flush=True)
        others = local.refusals()
        local_run = ["--run", RUN, "--yes"]
        local.ends(1, "that is not of this run", *local_run)
        if local.state()["failures"][-1]["phase"] != "deploy":
            fail("a stack of another owner did not stop the deployment")
        others.delete_stack(StackName=f"rehearsal-{RUN}")

        print("== a run, killed while it measures", flush=True)
        before = local.killed("resume", RUN)
        done = {name: phase["ended"] for name, phase in before["phases"].items() if "ended" in phase}
        cells = before["phases"]["calls"]["cells"]
        print(f"== killed after {list(done)} and {len(cells)} functions; it goes on", flush=True)
        if subprocess.call(local.command("resume", RUN, "--keep", account=None), stdin=subprocess.DEVNULL) != 0:
            fail("the resumed run failed")
        after = local.state()
        again = [name for name in done if after["phases"][name]["ended"] != done[name]]
        if again or any(after["phases"]["calls"]["cells"][name] != cell for name, cell in cells.items()):
            fail(f"the resumed run repeated what was done: {again}")
        if after["phases"]["alarms"]["without_data"]:
            fail(f"alarms without data: {after['phases']['alarms']['without_data']}")
        # It knows the rules of CloudFormation that moto does not.
        lint = pathlib.Path(sys.executable).with_name("cfn-lint")
        subprocess.run([lint, "--regions", REGION, "--template", local.runs / RUN / "template.json"], check=True)
        report = (local.runs / RUN / f"{RUN}.md").read_text()

        print("== everything is removed, without the state", flush=True)
        shutil.rmtree(local.runs)
        if subprocess.call(local.command("remove", RUN, "--yes"), stdin=subprocess.DEVNULL) != 0:
            fail("something is left")
        shutil.rmtree(REPOSITORY / "target/rehearsal-local", ignore_errors=True)
        (REPOSITORY / "target/rehearsal-local").mkdir()
        (REPOSITORY / "target/rehearsal-local/report.md").write_text(report)
        print(
            f"\nall phases ran against local stand-ins in {time.monotonic() - began:.0f} s: {services.requests} requests, "
            f"{services.lambda_.starts} processes, about {services.write_units} write and {services.read_units} read units. "
            "Nothing was sent to AWS. The report: target/rehearsal-local/report.md"
        )
    finally:
        if services is not None:
            services.stop()
        database.terminate()
        database.wait()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="rehearsal-") as folder:
        rehearse(pathlib.Path(folder))
