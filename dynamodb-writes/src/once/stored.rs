//! What the attributes of an item say, when a condition failed.

use aws_sdk_dynamodb::types::AttributeValue;

use super::layout::Layout;
use crate::send::Item;

/// A slot of the present item.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Slot {
    /// The bucket that wrote it last.
    pub(super) number: Option<i64>,
    /// The number of its digests.
    pub(super) keys: usize,
    /// True if it has the digest of the key.
    pub(super) has_key: bool,
}

/// Reads a slot. The error is the name of an attribute that this module has not written.
pub(super) fn slot(
    layout: &Layout,
    item: &Item,
    bucket: i64,
    digest: &[u8],
) -> Result<Slot, String> {
    let (number, set) = (layout.number(bucket), layout.set(bucket));
    let mut slot = Slot::default();
    match item.get(&number) {
        None => {}
        Some(AttributeValue::N(text)) => slot.number = Some(text.parse().map_err(|_| number)?),
        Some(_) => return Err(number),
    }
    match item.get(&set) {
        None => {}
        Some(AttributeValue::Bs(digests)) => {
            slot.keys = digests.len();
            slot.has_key = digests.iter().any(|known| known.as_ref() == digest);
        }
        Some(_) => return Err(set),
    }
    Ok(slot)
}

/// Returns the plan that the item names. The error is the name of an attribute that this module has not written.
pub(super) fn plan<'a>(layout: &Layout, item: &'a Item) -> Result<Option<&'a str>, String> {
    match item.get(&layout.plan()) {
        None => Ok(None),
        Some(AttributeValue::S(plan)) if is_plan(plan) => Ok(Some(plan)),
        Some(_) => Err(layout.plan()),
    }
}

/// Returns true if the text has the form of [`Layout::plan_text`]. Errors show it, and must not show a value of another program.
fn is_plan(text: &str) -> bool {
    let number = |text: &str| !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit());
    let parts = text
        .strip_suffix('B')
        .and_then(|text| text.split_once("s "))
        .and_then(|(times, key)| Some((times.split_once('x')?, key)));
    parts.is_some_and(|((buckets, seconds), key)| [buckets, seconds, key].into_iter().all(number))
}

/// Removes what this module keeps in an item, so that the values of the caller are left.
pub(super) fn without_keys(layout: &Layout, mut item: Item) -> Item {
    item.retain(|name, _| !layout.is_ours(name));
    item
}
