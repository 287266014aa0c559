//! Private functions for the fuzz targets. Only built with `--cfg fuzzing`.

use idempotency_core::record::Record;

use crate::attribute_names::AttributeNames;
use crate::item::{self, Item};
use crate::transport::to_value;

/// Reads a record from an item.
pub fn record(item: Item, names: &AttributeNames) -> Record {
    item::record(item, names)
}

/// Converts a record to an item without its key.
pub fn item(record: &Record, names: &AttributeNames) -> Item {
    item::attributes(record)
        .map(|(attribute, value)| (names.of(attribute).to_owned(), to_value(value)))
        .collect()
}
