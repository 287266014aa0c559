//! What the fuzz targets call of what is private. Nothing else is built with `--cfg fuzzing`.

use idempotency_core::record::Record;

use crate::attribute_names::AttributeNames;
use crate::item::{self, Item};

/// The record that an item holds.
pub fn record(item: Item, names: &AttributeNames) -> Record {
    item::record(item, names)
}

/// The item that holds a record, without its key.
pub fn item(record: &Record, names: &AttributeNames) -> Item {
    item::attributes(record)
        .into_iter()
        .map(|(attribute, value)| (names.of(attribute).to_owned(), value))
        .collect()
}
