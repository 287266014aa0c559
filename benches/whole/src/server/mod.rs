//! The databases that the contestants are measured against.

mod http;
mod stub;
mod table;
mod tls;

use std::collections::BTreeMap;

#[cfg(feature = "embedded")]
use idempotency_testkit::dynamodb::{EmbeddedDynamoDb, TableSpec};
use serde::Serialize;

use crate::contestants::Part;
use crate::samples::Setting;
use stub::Stub;

pub const TABLE: &str = "idempotency";

/// How often each operation was requested.
pub type Requests = BTreeMap<String, u64>;

/// A kind of database.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ServerKind {
    /// The embedded DynamoDB of the testkit: evaluates each condition, on SQLite.
    #[cfg(feature = "embedded")]
    Embedded,
    /// Responds at once from memory, so that the cost of the client is not hidden.
    Stub,
    /// The same through TLS.
    StubTls,
}

impl ServerKind {
    pub const ALL: &[Self] = &[
        #[cfg(feature = "embedded")]
        Self::Embedded,
        Self::Stub,
        Self::StubTls,
    ];
}

/// A database that runs.
pub enum Server {
    #[cfg(feature = "embedded")]
    Embedded(EmbeddedDynamoDb),
    Stub(Stub),
}

impl Server {
    pub async fn start(setting: &Setting) -> anyhow::Result<Self> {
        let is_late = setting.part == Part::Slow;
        match setting.server {
            #[cfg(feature = "embedded")]
            ServerKind::Embedded => {
                let database = EmbeddedDynamoDb::start().await?;
                database.create_table(TableSpec::new(TABLE)).await?;
                Ok(Self::Embedded(database))
            }
            ServerKind::Stub => Ok(Self::Stub(Stub::start(false, is_late)?)),
            ServerKind::StubTls => Ok(Self::Stub(Stub::start(true, is_late)?)),
        }
    }

    /// Returns the variables with which a contestant finds the database.
    pub fn environment(&self) -> Vec<(String, String)> {
        match self {
            #[cfg(feature = "embedded")]
            Self::Embedded(database) => database.environment(),
            Self::Stub(stub) => stub.environment(),
        }
    }

    /// Returns the requests since the last call of this function.
    pub fn take_requests(&self) -> Requests {
        match self {
            #[cfg(feature = "embedded")]
            Self::Embedded(database) => {
                let mut requests = Requests::new();
                for request in database.requests() {
                    *requests.entry(request.operation).or_default() += 1;
                }
                database.clear_requests();
                requests
            }
            Self::Stub(stub) => stub.take_requests(),
        }
    }
}
