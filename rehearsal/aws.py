"""The only way to AWS. Every client and every started program gets its region, endpoint and credentials here."""

import os
import re

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from state import Stop

# The account that the stand-ins pretend to be.
LOCAL_ACCOUNT = "123456789012"


class Aws:
    """An account in a region, or the stand-ins at an endpoint on loopback."""

    def __init__(self, account, region, endpoint=None):
        if not re.fullmatch(r"\d{12}", account or ""):
            raise Stop("--account needs the twelve digits of the account: nothing is done in an account that was not named")
        if not region:
            raise Stop("--region needs a region, such as eu-central-1")
        self.account, self.region, self.endpoint = account, region, endpoint
        if endpoint is None:
            self._refuse_other_endpoints()
            self._session = boto3.Session(region_name=region)
        else:
            self._only_local()
            self._session = boto3.Session("local", "local", region_name=region)

    def environment(self):
        """Returns the variables of a program that reaches AWS: the credentials of this moment, wherever they are from."""
        credentials = self._session.get_credentials().get_frozen_credentials()
        variables = {
            "AWS_REGION": self.region,
            "AWS_DEFAULT_REGION": self.region,
            "AWS_ACCESS_KEY_ID": credentials.access_key,
            "AWS_SECRET_ACCESS_KEY": credentials.secret_key,
            "AWS_SESSION_TOKEN": credentials.token or "",
        }
        others = {name: value for name, value in os.environ.items() if name not in ("AWS_PROFILE", *variables)}
        return others | {name: value for name, value in variables.items() if value}

    def _refuse_other_endpoints(self):
        for name in os.environ:
            if name.startswith("AWS_ENDPOINT_URL"):
                raise Stop(f"{name} is set: a part of the run would not reach AWS. Unset it")
        # Nor one of the configuration file.
        os.environ["AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"] = "true"

    def _only_local(self):
        """Leaves no way to AWS: no credentials, and no endpoint but the stand-ins'. Only the build can reach other machines."""
        if not re.fullmatch(r"http://127\.0\.0\.1:\d+", self.endpoint) or self.account != LOCAL_ACCOUNT:
            raise Stop(f"--endpoint is for the stand-ins at http://127.0.0.1 and the account {LOCAL_ACCOUNT}")
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            del os.environ[name]
        os.environ |= {
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_ACCESS_KEY_ID": "local",
            "AWS_SECRET_ACCESS_KEY": "local",
            "AWS_ENDPOINT_URL": self.endpoint,
            "NO_PROXY": "127.0.0.1",
            "no_proxy": "127.0.0.1",
        }

    def client(self, service):
        """Returns a client. One of Lambda sends an invocation once: a repeated one would be another call."""
        attempts = 1 if service == "lambda-invoke" else 8
        config = Config(
            read_timeout=90, max_pool_connections=32, retries={"total_max_attempts": attempts, "mode": "standard"}
        )
        return self._session.client(service.removesuffix("-invoke"), endpoint_url=self.endpoint, config=config)

    def check_account(self):
        """Refuses credentials of another account. This is the first request of every command that sends any."""
        try:
            found = self.client("sts").get_caller_identity()["Account"]
        except (BotoCoreError, ClientError) as error:
            raise Stop(f"these credentials cannot be used: {error}") from error
        if found != self.account:
            raise Stop(f"these credentials are of the account {found}, not of {self.account}: nothing was done")


class Names:
    """The names of everything that a run makes. All begin with the prefix, and carry the tag."""

    TAG = "idempotency-rehearsal"

    def __init__(self, run, account):
        # Without -, so that the names of one run are never the beginning of another's.
        if not re.fullmatch(r"[a-z0-9]{1,20}", run):
            raise Stop(f"`{run}` is no name of a run: write small letters and digits, at most 20")
        self.run = run
        self.prefix = f"rehearsal-{run}"
        self.stack = self.table = self.prefix
        self.composite = f"{self.prefix}-composite"
        self.bucket = f"{self.prefix}-{account}"
        # Of the metrics. A query names it without quotes.
        self.namespace = f"Rehearsal_{run}"

    def function(self, *parts):
        return "-".join([self.prefix, *map(str, parts)]).replace("_", "-")

    def tags(self, key="Key", value="Value"):
        return [{key: self.TAG, value: self.run}]

    def owns(self, tags):
        """Returns true if the tags are those of this run."""
        return any(tag.get("Key") == self.TAG and tag.get("Value") == self.run for tag in tags)
