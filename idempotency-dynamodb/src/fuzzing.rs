//! What the fuzz targets call of what is private. Nothing else is built with `--cfg fuzzing`.

use idempotency_core::record::Record;

use crate::item::{self, Item};
use crate::names::Names;

/// The record that an item holds.
pub fn record(item: Item, names: &Names) -> Record {
    item::record(item, names)
}

/// The item that holds a record, without its key.
pub fn item(record: &Record, names: &Names) -> Item {
    item::attributes(record)
        .into_iter()
        .map(|(attribute, value)| (names.of(attribute).to_owned(), value))
        .collect()
}
