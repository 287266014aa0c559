//! The store with each client. The lean client reports and sends the same as the SDK's: the tests of `wire` run with both, and
//! their requests are compared. Here: both clients, and what their tests share.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test may fail")]

mod credentials;
mod environment;
mod same_faults;
mod same_reply;
mod same_wire;
mod script;

/// Includes the tests of a store with one client. Their files are compiled for each client, so that no test is written twice.
macro_rules! tests_with {
    ($client:ident, $kind:expr) => {
        #[path = "."]
        #[allow(
            clippy::duplicate_mod,
            reason = "a test is written once for both clients"
        )]
        mod $client {
            const KIND: crate::Kind = $kind;

            mod wire;
        }
    };
}

tests_with!(sdk, crate::Kind::Sdk);
tests_with!(lean, crate::Kind::Lean);

use std::collections::BTreeMap;

use aws_config::SdkConfig;
use aws_sdk_dynamodb::Client;
use idempotency_core::record::Record;
use idempotency_core::store::StoreReply;
use idempotency_dynamodb::{DynamoDbStore, DynamoDbStoreBuilder};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::net::TcpStream;

/// A client of the store.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Sdk,
    Lean,
}

impl Kind {
    pub(crate) const ALL: [Self; 2] = [Self::Sdk, Self::Lean];

    /// Returns the builder of a store with this client of the SDK, or with the lean client made from it.
    pub(crate) fn with_client(self, client: Client) -> DynamoDbStoreBuilder {
        let builder = DynamoDbStore::builder().table("payments");
        match self {
            Self::Sdk => builder.client(client),
            Self::Lean => builder.lean_client(idempotency_dynamodb::LeanClient::new(client)),
        }
    }

    /// Returns the builder of a store with a client from this configuration.
    pub(crate) fn with_config(self, config: &SdkConfig) -> DynamoDbStoreBuilder {
        let builder = DynamoDbStore::builder().table("payments");
        match self {
            Self::Sdk => builder.client(idempotency_dynamodb::sdk_client(config)),
            Self::Lean => builder.sdk_config(config),
        }
    }

    /// Returns the store on a client from this configuration.
    pub(crate) fn store(self, config: &SdkConfig) -> DynamoDbStore {
        self.with_config(config).build().unwrap()
    }
}

/// Says a reply in a few words: what happened, and whether an earlier send, or a failed one, may have been applied. A record is named
/// by its response.
pub(crate) fn said(reply: &StoreReply) -> String {
    let named = |record: &Option<Record>| match record {
        None => "no record".to_owned(),
        Some(record) => {
            let data = record.data.value();
            data.map_or("a claim", |data| data.as_str()).to_owned()
        }
    };
    let (what, maybe) = match reply {
        StoreReply::Applied { maybe_again, .. } => ("applied".to_owned(), *maybe_again),
        StoreReply::ConditionFailed {
            existing,
            maybe_applied,
            ..
        } => (format!("refused by {}", named(existing)), *maybe_applied),
        StoreReply::Failed {
            error,
            maybe_applied,
        } => (format!("{:?}", error.kind()), *maybe_applied),
        StoreReply::Rejected {
            rejection,
            maybe_applied,
        } => (rejection.to_string(), *maybe_applied),
        StoreReply::Found { record, .. } => (format!("found {}", named(record)), false),
        other => panic!("{other:?}"),
    };
    if maybe {
        format!("{what}, maybe applied")
    } else {
        what
    }
}

/// Returns the text of the error in a reply.
pub(crate) fn text_of(reply: &StoreReply) -> String {
    match reply {
        StoreReply::Failed { error, .. } => error.to_string(),
        _ => String::new(),
    }
}

/// Says a reply as [`said`] does, with the text of an error, or with all that is known of a success.
pub(crate) fn said_in_full(reply: &StoreReply) -> String {
    match reply {
        StoreReply::Failed { error, .. } => format!("{}: {error}", said(reply)),
        other => format!("{other:?}"),
    }
}

/// Returns the rows of a data file: every line but comments. There is at least one.
pub(crate) fn rows(file: &'static str) -> impl Iterator<Item = &'static str> {
    let mut rows = file.lines().filter(|line| !line.starts_with('#'));
    let first = rows.next().unwrap();
    std::iter::once(first).chain(rows)
}

/// Returns the columns of a row, of which the last ones can be missing.
pub(crate) fn columns<const N: usize>(row: &'static str) -> [&'static str; N] {
    let mut columns = row.split(" | ");
    let found = std::array::from_fn(|_| columns.next().unwrap_or_default());
    assert_eq!(columns.next(), None, "{row}");
    found
}

/// Reads a request to its end. Returns its first line and its headers, in lower case. The line is empty at the end of the connection.
pub(crate) async fn read_request(
    connection: &mut BufReader<TcpStream>,
) -> std::io::Result<(String, BTreeMap<String, String>)> {
    let (mut first, mut headers) = (String::new(), BTreeMap::new());
    connection.read_line(&mut first).await?;
    loop {
        let mut line = String::new();
        connection.read_line(&mut line).await?;
        let Some((name, value)) = line.trim_end().split_once(':') else {
            let length = headers.get("content-length");
            let length = length.map_or(0, |length: &String| length.parse().unwrap());
            connection.read_exact(&mut vec![0; length]).await?;
            return Ok((first.trim_end().to_owned(), headers));
        };
        headers.insert(name.to_lowercase(), value.trim().to_owned());
    }
}
