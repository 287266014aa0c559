//! What a check plays, without the types of its user.

use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

use super::process::Local;
use super::provider::Provider;
use super::world::World;
#[cfg(feature = "dynamodb")]
use crate::dynamodb::{DatabaseError, TableSpec};

/// Counts an effect.
pub(super) type Count = Box<dyn Fn(World) -> Local<i64> + Send + Sync>;

/// Puts something into the world of a scenario before the first delivery.
pub(super) type Prepare = Arc<dyn Fn(World) -> Local<()> + Send + Sync>;

/// The number of the event whose effect is checked.
pub(super) const EVENT: usize = 0;

/// What a check plays, without the types of its user.
#[derive(Default)]
pub(super) struct Plan {
    pub(super) counts: Arc<Vec<(String, Count)>>,
    pub(super) prepare: Vec<Prepare>,
    #[cfg(feature = "dynamodb")]
    pub(super) tables: Vec<TableSpec>,
    pub(super) provider: Option<Provider>,
    /// The URL of a database, and what is in it before the first delivery.
    #[cfg(feature = "postgres")]
    pub(super) postgres: Option<(String, String)>,
    /// JSON pointers into responses, to what can differ.
    pub(super) ignored: Vec<String>,
    /// The numbers of the events of other operations.
    pub(super) others: Vec<usize>,
    /// The numbers of the events that have the key of the event and another content.
    pub(super) changed: Vec<usize>,
    /// True if each delivery changes the event.
    pub(super) is_changed_by_delivery: bool,
    /// The names of effects that are not compared.
    pub(super) ignored_effects: Vec<String>,
    /// For each effect that can happen in several ways, their names.
    pub(super) one_of: Vec<Vec<String>>,
    /// For how long the sender can deliver the event again.
    pub(super) retried_for: Option<Duration>,
    /// How long a process waits for its sockets, in real time, before virtual time moves.
    pub(super) settle: Duration,
    /// True if the function asks a server of the test's own.
    pub(super) own_server: bool,
    /// True if the faultless run ends with an error.
    pub(super) fails: bool,
    /// True if the faultless run has no effect.
    pub(super) without_effect: bool,
}

/// Why a check could not run.
#[derive(Debug)]
pub(super) struct Failure(String);

impl Failure {
    pub(super) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    pub(super) fn of_thread(error: io::Error) -> Self {
        Self(format!("no thread could be started: {error}"))
    }
}

#[cfg(feature = "dynamodb")]
impl From<DatabaseError> for Failure {
    fn from(error: DatabaseError) -> Self {
        Self(error.to_string())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
