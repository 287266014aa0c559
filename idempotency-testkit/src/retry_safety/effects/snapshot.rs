//! The world at one moment.

use std::collections::BTreeMap;

use super::super::database::Items;
use super::super::provider::ProviderRequest;

/// What can be seen of the world: counts, requests that a provider applied, and the items of the function's tables.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in super::super) struct Snapshot {
    /// The counts of the user, by name.
    pub(in super::super) counts: BTreeMap<String, i64>,
    /// The requests that the provider applied.
    pub(in super::super) requests: Vec<ProviderRequest>,
    pub(in super::super) items: Items,
}

impl Snapshot {
    /// Returns the number of requests that were applied, by method and path.
    pub(super) fn requests_by_path(&self) -> BTreeMap<String, i64> {
        count(self.requests.iter().map(ProviderRequest::label))
    }

    /// Returns the number of requests that were applied, by method.
    pub(super) fn requests_by_method(&self) -> BTreeMap<String, i64> {
        count(self.requests.iter().map(|request| request.method.clone()))
    }
}

fn count(names: impl Iterator<Item = String>) -> BTreeMap<String, i64> {
    let mut counts = BTreeMap::new();
    for name in names {
        *counts.entry(name).or_default() += 1;
    }
    counts
}
