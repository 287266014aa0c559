//! Private functions for the fuzz targets. Only built with `--cfg fuzzing`.

use aws_sdk_dynamodb::types::AttributeValue;
use idempotency_core::compression::decompress;
use idempotency_core::record::{Attribute, Data, Record, StoredEvent};

use crate::item;
use crate::large::{Form, ItemForm, Settings};
use crate::limits::LARGEST_RESPONSE;
use crate::names::AttributeNames;
use crate::store::{EventForm, read_event};
use crate::value::{Item, Value, to_item, to_value};

/// Reads a record from an item.
pub fn record(item: Item) -> Record {
    item::record(item, &AttributeNames::default())
}

/// Converts a record to an item without its key.
pub fn item(record: &Record) -> Item {
    let names = AttributeNames::default();
    to_item(item::attributes(record).map(|(attribute, value)| (names.of(attribute), value)))
}

/// Reads an event from its attribute.
///
/// # Errors
///
/// What is wrong with it.
pub fn event(attribute: &AttributeValue) -> Result<StoredEvent, &'static str> {
    read_event(attribute)
}

/// Returns an event as it is stored.
pub fn stored_event(event: &StoredEvent) -> AttributeValue {
    let form = EventForm::of(Some(event));
    to_value(
        form.apply((Attribute::Event, Value::Text(event.stored())))
            .1,
    )
}

/// The attributes of a stored response, and the pieces that it is split into.
pub struct Stored {
    pub item: Item,
    pub pieces: Vec<Vec<u8>>,
}

/// Returns a response as it is stored in an item that has `room` bytes for it. `None` if it is longer than any response.
pub fn stored(
    response: &Data,
    compress_above: Option<usize>,
    split: bool,
    room: usize,
) -> Option<Stored> {
    let names = AttributeNames::default();
    let settings = Settings {
        compress_above,
        split,
    };
    let form = Form::of(response, settings, &names, room, true)?;
    let pieces = match &form {
        Form::Split(stored) => stored.pieces().map(<[u8]>::to_vec).collect(),
        Form::Plain | Form::Compressed(_) => Vec::new(),
    };
    let data = (Attribute::Data, Value::Text(response.as_str()));
    let mut item = Item::from([(names.data.clone(), to_value(form.apply(data).1))]);
    if let Some((attribute, value)) = form.extra() {
        item.insert(names.extra(attribute).to_owned(), to_value(value));
    }
    Some(Stored { item, pieces })
}

/// Reads a stored response that is not in `data` itself. `None` if it is there, or if there is none.
///
/// # Errors
///
/// Why it cannot be read.
pub fn response(stored: &Stored) -> Option<Result<Data, &'static str>> {
    Some(
        match ItemForm::of(&mut stored.item.clone(), &AttributeNames::default()) {
            ItemForm::Plain => return None,
            ItemForm::Compressed(bytes) => decompress(&bytes, LARGEST_RESPONSE).map(Data::new),
            ItemForm::Split(manifest) => manifest.response(stored.pieces.concat()),
            ItemForm::Damaged(defect) => Err(defect),
        },
    )
}
