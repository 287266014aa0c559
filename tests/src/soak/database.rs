//! The store under the soak: a table in the embedded DynamoDB, or a server of Valkey or PostgreSQL behind a proxy.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use idempotency_lambda::BoxError;
use idempotency_postgres::MIGRATION;
use idempotency_testkit::dynamodb::{EmbeddedDynamoDb, Request, TableSpec};

use super::bank::{self, TABLES, Transfer};
use super::faults::{Chance, Faults};
use super::function::{POSTGRES, TRANSFERS, VALKEY, micros};
use super::lock;
use super::server::LEASE;
use crate::Proxy;
use crate::postgres;
use crate::valkey::{self, Frozen};

/// Which store the function has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SoakStore {
    /// A table in the embedded DynamoDB.
    DynamoDb,
    /// A server of Valkey or Redis, whose program a variable names. The function is then an HTTP server.
    Valkey,
    /// A server of PostgreSQL, of which variables say how it starts. The function is then an HTTP server.
    Postgres {
        /// True if the handler moves money in the transaction of its response.
        transfers: bool,
    },
}

/// The settings of PostgreSQL: transfers that wait for each other are found soon.
const SETTINGS: &[&str] = &["deadlock_timeout=20ms"];

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
    Valkey {
        server: Mutex<valkey::Server>,
        proxy: Proxy,
    },
    Postgres {
        server: Mutex<postgres::Server>,
        /// The name of the database.
        database: String,
        proxy: Proxy,
        transfers: bool,
    },
}

/// A server that is killed and frozen.
trait Troubled: Send {
    fn kill(&mut self) -> Result<(), BoxError>;
    fn spawn_again(&mut self) -> Result<(), BoxError>;
    /// Kills it, starts it again, and waits until it accepts requests.
    fn restart(&mut self) -> Result<(), BoxError>;
    fn freeze(&self) -> Vec<Frozen>;
}

impl Troubled for valkey::Server {
    fn kill(&mut self) -> Result<(), BoxError> {
        self.kill()
    }

    fn spawn_again(&mut self) -> Result<(), BoxError> {
        self.spawn_again(&[])
    }

    fn restart(&mut self) -> Result<(), BoxError> {
        self.restart()
    }

    fn freeze(&self) -> Vec<Frozen> {
        vec![self.freeze()]
    }
}

impl Troubled for postgres::Server {
    fn kill(&mut self) -> Result<(), BoxError> {
        self.kill();
        Ok(())
    }

    fn spawn_again(&mut self) -> Result<(), BoxError> {
        self.spawn(SETTINGS);
        Ok(())
    }

    fn restart(&mut self) -> Result<(), BoxError> {
        self.kill();
        self.restart(SETTINGS);
        Ok(())
    }

    fn freeze(&self) -> Vec<Frozen> {
        self.freeze()
    }
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
                let server = valkey::Server::start(&[])?;
                let proxy = Proxy::start(server.address()).await?;
                let server = Mutex::new(server);
                Ok(Self::Valkey { server, proxy })
            }
            SoakStore::Postgres { transfers } => {
                let server = postgres::Server::start(SETTINGS);
                let database = postgres::empty_database(server.address()).await;
                let url = postgres::url(server.address(), "postgres", &database);
                postgres::execute(&url, MIGRATION).await;
                postgres::execute(&url, TABLES).await;
                Ok(Self::Postgres {
                    database,
                    proxy: Proxy::before_postgres(server.address()).await?,
                    server: Mutex::new(server),
                    transfers,
                })
            }
        }
    }

    /// Returns the variables of the function's processes.
    pub(super) fn environment(&self) -> Vec<(String, String)> {
        let mut variables = match self {
            Self::DynamoDb(database) => database.environment(),
            Self::Valkey { proxy, .. } => vec![(VALKEY.to_owned(), proxy.url())],
            Self::Postgres {
                database,
                proxy,
                transfers,
                ..
            } => {
                let url = postgres::url(proxy.address(), "postgres", database);
                let moves = transfers.then(|| (TRANSFERS.to_owned(), "yes".to_owned()));
                [(POSTGRES.to_owned(), url)]
                    .into_iter()
                    .chain(moves)
                    .collect()
            }
        };
        let others = [
            ("IDEMPOTENCY_TABLE", "idempotency"),
            ("NO_PROXY", "127.0.0.1"),
            ("AWS_EC2_METADATA_DISABLED", "true"),
        ];
        variables.extend(others.map(|(name, value)| (name.to_owned(), value.to_owned())));
        variables
    }

    /// Returns a server with the proxy before it.
    fn server(&self) -> Option<(&Mutex<dyn Troubled>, &Proxy)> {
        match self {
            Self::DynamoDb(_) => None,
            Self::Valkey { server, proxy } => Some((server, proxy)),
            Self::Postgres { server, proxy, .. } => Some((server, proxy)),
        }
    }

    /// Starts to inject faults into `per_mille` of 1,000 requests.
    pub(super) fn strike(&self, faults: &Faults, seed: u64, per_mille: u64) {
        match self {
            Self::DynamoDb(database) => faults.strike(database, seed, per_mille),
            Self::Valkey { proxy, .. } | Self::Postgres { proxy, .. } => {
                faults.strike_wire(proxy, seed, per_mille);
            }
        }
    }

    /// Ends the faults. A server that is not running starts again.
    pub(super) fn calm(&self) -> Result<(), BoxError> {
        match self {
            Self::DynamoDb(database) => database.clear_faults(),
            Self::Valkey { proxy, .. } | Self::Postgres { proxy, .. } => proxy.calm(),
        }
        let server = self.server();
        server.map_or(Ok(()), |(server, _)| lock(server).restart())
    }

    /// Kills the server and starts it again, freezes it, or closes all its connections, at random moments until the task is aborted.
    pub(super) async fn trouble(
        &self,
        every: Duration,
        seed: u64,
        troubles: &Faults,
    ) -> Result<(), BoxError> {
        let Some((server, proxy)) = self.server() else {
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
                    lock(server).spawn_again()?;
                }
            }
        }
    }

    /// Returns the requests that the database received, if it notes them.
    pub(super) fn requests(&self) -> Vec<Request> {
        match self {
            Self::DynamoDb(database) => database.requests(),
            Self::Valkey { .. } | Self::Postgres { .. } => Vec::new(),
        }
    }

    /// Returns the number of requests that the database received.
    pub(super) fn received(&self) -> usize {
        match self {
            Self::DynamoDb(database) => database.requests().len(),
            Self::Valkey { proxy, .. } | Self::Postgres { proxy, .. } => proxy.requests().len(),
        }
    }

    /// Returns the writes that were applied.
    pub(super) async fn writes(&self) -> Result<Vec<Applied>, BoxError> {
        match self {
            Self::DynamoDb(database) => {
                let requests = database.requests().into_iter();
                let applied = requests.filter(|it| it.status == Some(200));
                Ok(applied.map(|it| of_request(&it)).collect())
            }
            Self::Valkey { server, .. } => {
                let (changes, mut records) = (lock(server).changes()?, Records::default());
                let applied = changes.iter().filter_map(|it| records.change(it));
                Ok(applied.collect())
            }
            Self::Postgres {
                server, database, ..
            } => bank::writes(&url(server, database)).await,
        }
    }

    /// Returns the transfers of money that were applied.
    ///
    /// # Errors
    ///
    /// If an account does not have what they left in it.
    pub(super) async fn transfers(&self) -> Result<Vec<Transfer>, BoxError> {
        match self {
            Self::Postgres {
                server, database, ..
            } => bank::transfers(&url(server, database)).await,
            _ => Ok(Vec::new()),
        }
    }
}

/// Returns the URL of a database without the proxy.
fn url(server: &Mutex<postgres::Server>, database: &str) -> String {
    postgres::url(lock(server).address(), "postgres", database)
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

/// The records of Valkey, of which each change writes all fields.
#[derive(Default)]
struct Records(BTreeMap<String, BTreeMap<String, String>>);

impl Records {
    /// Returns what a command of the append-only file wrote, if it wrote fields of a record.
    fn change(&mut self, words: &[Vec<u8>]) -> Option<Applied> {
        let [command, key, values @ ..] = words else {
            return None;
        };
        let key = String::from_utf8_lossy(key);
        let (_, id) = key.strip_suffix('}')?.split_once('{')?;
        let before = self.0.remove(id).unwrap_or_default();
        if !command.eq_ignore_ascii_case(b"SET") {
            return None;
        }
        let fields = valkey::record::fields(values.first()?);
        let changed = fields
            .iter()
            .filter(|(name, it)| before.get(*name) != Some(it));
        let changed: Vec<_> = changed.map(|(name, _)| name.as_str()).collect();
        let claim = || {
            let owner = fields.get("owner").filter(|_| changed.contains(&"owner"))?;
            let is_claim = fields.get("status")? == "INPROGRESS";
            let lease_end_ms: u64 = fields.get("in_progress_expiration")?.parse().ok()?;
            // The server does not say when. The claim says it by the clock of its process.
            let lease = u64::try_from(LEASE.as_millis()).unwrap_or(u64::MAX);
            let claim = Claim {
                at_us: (lease_end_ms - lease) * 1_000,
                lease_end_us: lease_end_ms * 1_000,
            };
            is_claim.then_some((owner.clone(), claim))
        };
        let data = fields.get("data").filter(|_| changed.contains(&"data"));
        let applied = Applied {
            id: id.to_owned(),
            claim: claim(),
            renews: renews(&changed),
            responses: data.into_iter().cloned().collect(),
        };
        self.0.insert(id.to_owned(), fields);
        Some(applied)
    }
}
