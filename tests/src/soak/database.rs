//! The store under the soak: a table in the embedded DynamoDB, or a server of Valkey behind a proxy.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use idempotency_lambda::BoxError;
use idempotency_testkit::dynamodb::{EmbeddedDynamoDb, Request, TableSpec};

use super::faults::{Chance, Faults};
use super::function::{VALKEY, micros};
use super::lock;
use super::server::LEASE;
use crate::Proxy;
use crate::valkey::Server;

/// The field with the version of the format, which each write to Valkey has.
const FORMAT: &str = "v";

/// Which store the function has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SoakStore {
    /// A table in the embedded DynamoDB.
    DynamoDb,
    /// A server of Valkey or Redis, whose program a variable names. The function is then an HTTP server.
    Valkey,
}

/// A write that was applied.
#[derive(Debug, Default)]
pub(super) struct Applied {
    /// The record.
    pub(super) id: String,
    /// The owner of the claim, if it is one.
    pub(super) claim: Option<(String, Claim)>,
    /// True if it renewed a lease.
    pub(super) renews: bool,
    /// The responses that it stored.
    pub(super) responses: Vec<String>,
}

/// A claim that was applied.
#[derive(Debug)]
pub(super) struct Claim {
    pub(super) at_us: u64,
    pub(super) lease_end_us: u64,
}

pub(super) enum Database {
    DynamoDb(EmbeddedDynamoDb),
    Valkey { server: Mutex<Server>, proxy: Proxy },
}

impl Database {
    pub(super) async fn start(store: SoakStore) -> Result<Self, BoxError> {
        match store {
            SoakStore::DynamoDb => {
                let database = EmbeddedDynamoDb::start().await?;
                database.create_table(TableSpec::new("idempotency")).await?;
                Ok(Self::DynamoDb(database))
            }
            SoakStore::Valkey => {
                let server = Server::start(&[])?;
                let proxy = Proxy::start(server.address()).await?;
                let server = Mutex::new(server);
                Ok(Self::Valkey { server, proxy })
            }
        }
    }

    /// Returns the variables of the function's processes.
    pub(super) fn environment(&self) -> Vec<(String, String)> {
        let mut variables = match self {
            Self::DynamoDb(database) => database.environment(),
            Self::Valkey { proxy, .. } => vec![(VALKEY.to_owned(), proxy.url())],
        };
        let others = [
            ("IDEMPOTENCY_TABLE", "idempotency"),
            ("NO_PROXY", "127.0.0.1"),
            ("AWS_EC2_METADATA_DISABLED", "true"),
        ];
        variables.extend(others.map(|(name, value)| (name.to_owned(), value.to_owned())));
        variables
    }

    /// Starts to inject faults into `per_mille` of 1,000 requests.
    pub(super) fn strike(&self, faults: &Faults, seed: u64, per_mille: u64) {
        match self {
            Self::DynamoDb(database) => faults.strike(database, seed, per_mille),
            Self::Valkey { proxy, .. } => faults.strike_wire(proxy, seed, per_mille),
        }
    }

    /// Ends the faults. A server that is not running starts again.
    pub(super) fn calm(&self) -> Result<(), BoxError> {
        match self {
            Self::DynamoDb(database) => database.clear_faults(),
            Self::Valkey { server, proxy } => {
                proxy.calm();
                lock(server).restart()?;
            }
        }
        Ok(())
    }

    /// Kills the server and starts it again, freezes it, or closes all its connections, at random moments until the task is aborted.
    pub(super) async fn trouble(
        &self,
        every: Duration,
        seed: u64,
        troubles: &Faults,
    ) -> Result<(), BoxError> {
        let Self::Valkey { server, proxy } = self else {
            return Ok(());
        };
        let mut chance = Chance::of(seed, "server");
        loop {
            chance.pause(every).await;
            match chance.below(3) {
                0 => {
                    troubles.note("all connections to the store cut");
                    proxy.cut();
                }
                1 => {
                    troubles.note("store frozen");
                    let frozen = lock(server).freeze();
                    tokio::time::sleep(chance.spread(50, 2_000)).await;
                    drop(frozen);
                }
                _ => {
                    troubles.note("store killed and restarted");
                    lock(server).kill()?;
                    tokio::time::sleep(chance.spread(20, 1_000)).await;
                    lock(server).spawn_again(&[])?;
                }
            }
        }
    }

    /// Returns the requests that the database received, if it notes them.
    pub(super) fn requests(&self) -> Vec<Request> {
        match self {
            Self::DynamoDb(database) => database.requests(),
            Self::Valkey { .. } => Vec::new(),
        }
    }

    /// Returns the number of requests that the database received.
    pub(super) fn received(&self) -> usize {
        match self {
            Self::DynamoDb(database) => database.requests().len(),
            Self::Valkey { proxy, .. } => proxy.requests().len(),
        }
    }

    /// Returns the writes that were applied.
    pub(super) fn writes(&self) -> Result<Vec<Applied>, BoxError> {
        match self {
            Self::DynamoDb(database) => {
                let requests = database.requests().into_iter();
                let applied = requests.filter(|it| it.status == Some(200));
                Ok(applied.map(|it| of_request(&it)).collect())
            }
            Self::Valkey { server, .. } => {
                let changes = lock(server).changes()?;
                Ok(changes.iter().filter_map(|it| of_change(it)).collect())
            }
        }
    }
}

/// Returns what a request to DynamoDB wrote.
fn of_request(request: &Request) -> Applied {
    let parts = ["ExpressionAttributeValues", "Item"].into_iter();
    let parts = parts.filter_map(|part| request.body.get(part)?.as_object());
    let texts = parts.flatten().filter_map(|(_, value)| value["S"].as_str());
    Applied {
        id: request.key("id").unwrap_or_default().to_owned(),
        claim: claim_in(request),
        renews: renews(&updated(request)),
        responses: texts.map(str::to_owned).collect(),
    }
}

/// Returns the attributes that an update names in its expression.
fn updated(request: &Request) -> Vec<&str> {
    let expression = request.body["UpdateExpression"]
        .as_str()
        .unwrap_or_default();
    let names = request.body["ExpressionAttributeNames"].as_object();
    let names = names.into_iter().flatten();
    let words: Vec<_> = expression.split([' ', ',', '=']).collect();
    let named = names.filter(|(short, _)| words.contains(&short.as_str()));
    named.filter_map(|(_, name)| name.as_str()).collect()
}

/// Returns true if a write of these attributes alone renews a lease.
fn renews(attributes: &[&str]) -> bool {
    let renewed = ["expiration", "in_progress_expiration"];
    attributes.len() == renewed.len() && renewed.iter().all(|it| attributes.contains(it))
}

fn claim_in(request: &Request) -> Option<(String, Claim)> {
    let item = request.body.get("Item")?;
    if item["status"]["S"] != "INPROGRESS" {
        return None;
    }
    let lease_end_ms: u64 = item["in_progress_expiration"]["N"].as_str()?.parse().ok()?;
    let claim = Claim {
        at_us: micros(request.responded_at?),
        lease_end_us: lease_end_ms * 1_000,
    };
    Some((item["owner"]["S"].as_str()?.to_owned(), claim))
}

/// Returns what a command of Valkey's append-only file wrote, if it wrote fields of a record.
fn of_change(words: &[String]) -> Option<Applied> {
    let [command, key, fields @ ..] = words else {
        return None;
    };
    if !command.eq_ignore_ascii_case("HSET") {
        return None;
    }
    let (_, id) = key.strip_suffix('}')?.split_once('{')?;
    let fields = fields.chunks_exact(2);
    let fields: BTreeMap<_, _> = fields.map(|it| (it[0].as_str(), it[1].as_str())).collect();
    let claim = || {
        let owner = fields
            .get("owner")
            .filter(|_| fields["status"] == "INPROGRESS")?;
        let lease_end_ms: u64 = fields.get("in_progress_expiration")?.parse().ok()?;
        // The server does not say when. The claim says it by the clock of its process.
        let lease = u64::try_from(LEASE.as_millis()).unwrap_or(u64::MAX);
        let claim = Claim {
            at_us: (lease_end_ms - lease) * 1_000,
            lease_end_us: lease_end_ms * 1_000,
        };
        Some(((*owner).to_owned(), claim))
    };
    Some(Applied {
        id: id.to_owned(),
        claim: fields.get("status").and_then(|_| claim()),
        renews: renews(
            &fields
                .keys()
                .copied()
                .filter(|name| *name != FORMAT)
                .collect::<Vec<_>>(),
        ),
        responses: fields
            .get("data")
            .map(|it| (*it).to_owned())
            .into_iter()
            .collect(),
    })
}
