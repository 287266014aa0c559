//! The listing of a table's records: a scan, or a query of the partition on a table with a sort key.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;
use idempotency_core::future::BoxFuture;
use idempotency_core::record::{Attribute, RecordId, StoredEvent};
use idempotency_core::store::{
    Consistency, ScanPage, ScanRequest, SendLog, StoreError, StoreErrorKind, StoreScan, UNLISTED,
};

use super::{DynamoDbStore, read_event};
use crate::item;
use crate::large::record_of_piece;
use crate::request::{QUERY, SCAN};
use crate::sends::Sends;
use crate::transport::PageRequest;
use crate::value::{Item, to_item};

/// A page has at most 1 MB, which is DynamoDB's limit. It reads and bills all items, also those that it leaves out.
///
/// The [`next`](ScanPage::next) of a page is the id of its last record.
impl StoreScan for DynamoDbStore {
    fn scan<'a>(&'a self, request: ScanRequest<'a>) -> BoxFuture<'a, Result<ScanPage, StoreError>> {
        Box::pin(async move {
            let target = if self.items.composite.is_some() {
                QUERY
            } else {
                SCAN
            };
            let sends = Sends::of_piece(&SendLog::new(), &self.items.table, target);
            let page = self.page_request(request);
            let page = self.items.transport.page(page, &sends).await?;
            let mut records = Vec::with_capacity(page.items.len());
            for mut item in page.items {
                let id = self.id(&mut item)?;
                // The other items are pieces of responses.
                if record_of_piece(&id).is_none() {
                    records.push((RecordId::new(id), item::record(item, &self.items.names)));
                }
            }
            Ok(ScanPage {
                records,
                read: usize::try_from(page.read).unwrap_or_default(),
                billed: Some(page.read_units),
                next: page.last.map(|mut key| self.id(&mut key)).transpose()?,
            })
        })
    }

    fn stored_event<'a>(
        &'a self,
        id: &'a RecordId,
    ) -> BoxFuture<'a, Result<Option<StoredEvent>, StoreError>> {
        Box::pin(async move {
            let item = self.items.get(id.as_str(), true, &SendLog::new()).await?;
            let event = item.and_then(|mut it| it.remove(self.items.names.of(Attribute::Event)));
            let Some(event) = event else {
                return Ok(None);
            };
            read_event(&event).map(Some).map_err(|why| {
                let table = &self.items.table;
                let text =
                    format!("the event of the record `{id}` in {table} cannot be read: {why}");
                StoreError::new(StoreErrorKind::Rejected, text)
            })
        })
    }
}

impl DynamoDbStore {
    /// Returns the name of the key attribute that has the record id.
    fn id_name(&self) -> &str {
        let sort_key = self
            .items
            .composite
            .as_ref()
            .map(|composite| &composite.sort_key);
        sort_key.unwrap_or(&self.items.names.key)
    }

    /// Takes the record id out of an item or out of the last key of a page.
    ///
    /// # Errors
    ///
    /// If it has none: each item has each key attribute of its table, so the key of the table has another name or type.
    fn id(&self, item: &mut Item) -> Result<String, StoreError> {
        let name = self.id_name();
        match item.remove(name) {
            Some(AttributeValue::S(id)) => Ok(id),
            _ => Err(self.items.table.item_without_id(name)),
        }
    }

    fn page_request(&self, request: ScanRequest<'_>) -> PageRequest {
        let ScanRequest { prefix, limit, .. } = request;
        let filter = request
            .filter
            .map(|filter| self.items.shapes.condition(filter));
        let (mut names, mut values) = (HashMap::new(), Item::new());
        if let Some(filter) = &filter {
            let filter_names = filter
                .names()
                .map(|(at, name)| (at.to_owned(), name.to_owned()));
            names.extend(filter_names);
            values = to_item(filter.values());
        }
        let filter = filter.map(|filter| filter.condition().to_owned());
        // The placeholders of a condition have a few letters, so none of these is one.
        names.insert("#record".to_owned(), self.id_name().to_owned());
        let of_prefix = (!prefix.is_empty()).then(|| {
            let prefix = AttributeValue::S(prefix.to_owned());
            values.insert(":prefix".to_owned(), prefix);
            "begins_with(#record, :prefix)"
        });
        let (key_condition, filter) = match (&self.items.composite, of_prefix, filter) {
            (None, None, filter) => (None, filter),
            (None, Some(of_prefix), filter) => {
                // An item without an id is not left out: it is an error.
                let of_prefix = format!("(attribute_not_exists(#record) OR {of_prefix})");
                let and_filter = filter.map(|it| format!(" AND ({it})")).unwrap_or_default();
                (None, Some(format!("{of_prefix}{and_filter}")))
            }
            (Some(composite), of_prefix, filter) => {
                names.insert("#partition".to_owned(), self.items.names.key.clone());
                let partition = AttributeValue::S(composite.partition.clone());
                values.insert(":partition".to_owned(), partition);
                let of_prefix = of_prefix.map(|it| format!(" AND {it}")).unwrap_or_default();
                (Some(format!("#partition = :partition{of_prefix}")), filter)
            }
        };
        let mut projection = "#record".to_owned();
        let all = Attribute::ALL.into_iter();
        let shown = all.filter(|attribute| !UNLISTED.contains(attribute));
        for (number, attribute) in shown.enumerate() {
            let placeholder = format!("#listed{number}");
            projection.push_str(&format!(", {placeholder}"));
            names.insert(placeholder, self.items.names.of(attribute).to_owned());
        }
        PageRequest {
            key_condition,
            filter,
            projection,
            names,
            values,
            consistent: request.consistency == Consistency::Strong,
            limit: i32::try_from(limit.max(1)).unwrap_or(i32::MAX),
            after: request.after.map(|after| to_item(self.items.key(after, 0))),
        }
    }
}

#[cfg(test)]
mod tests {
    use idempotency_core::protocol::condition::Condition;

    use super::super::tests::store;
    use super::*;

    fn text(text: &str) -> AttributeValue {
        AttributeValue::S(text.to_owned())
    }

    /// Says a request: its condition on the key, its filter, and its values in the order of their names.
    fn said(is_composite: bool, prefix: &str, filter: Option<&Condition>) -> String {
        let request = ScanRequest {
            prefix,
            filter,
            ..ScanRequest::default()
        };
        let request = store(is_composite).page_request(request);
        let mut values: Vec<_> = request.values.into_iter().collect();
        values.sort_by(|one, other| one.0.cmp(&other.0));
        let values = values.iter().map(|(name, value)| match value {
            AttributeValue::S(text) => format!("{name}={text}"),
            other => panic!("{other:?}"),
        });
        let values: Vec<_> = values.collect();
        let parts = [
            request.key_condition,
            request.filter,
            Some(values.join(" ")),
        ];
        parts.map(Option::unwrap_or_default).join(" | ")
    }

    #[test]
    fn a_prefix_is_a_condition_of_the_query_or_a_part_of_the_filter_of_the_scan() {
        let exists = Condition::Exists(Attribute::Data);
        let of_prefix = "begins_with(#record, :prefix)";
        let scanned = format!("(attribute_not_exists(#record) OR {of_prefix})");
        let plain = store(false);
        let condition = plain.items.shapes.condition(&exists);
        let filter = condition.condition();
        for (is_composite, prefix, with_filter, expected) in [
            (false, "", false, " |  | ".to_owned()),
            (false, "", true, format!(" | {filter} | ")),
            (false, "shop", false, format!(" | {scanned} | :prefix=shop")),
            (
                false,
                "shop",
                true,
                format!(" | {scanned} AND ({filter}) | :prefix=shop"),
            ),
            (
                true,
                "",
                false,
                "#partition = :partition |  | :partition=shop".to_owned(),
            ),
            (
                true,
                "a",
                true,
                format!(
                    "#partition = :partition AND {of_prefix} | {filter} | :partition=shop :prefix=a"
                ),
            ),
        ] {
            let filter = with_filter.then_some(&exists);
            assert_eq!(said(is_composite, prefix, filter), expected);
        }
    }

    #[test]
    fn a_listing_reads_no_response_and_begins_after_a_record_as_it_is_or_was() {
        for (consistency, is_consistent) in
            [(Consistency::Strong, true), (Consistency::Eventual, false)]
        {
            let page = store(true).page_request(ScanRequest {
                consistency,
                after: Some("shop#1"),
                ..ScanRequest::default()
            });
            assert_eq!(page.consistent, is_consistent);
            let after = page.after.unwrap();
            assert_eq!(
                (&after["id"], &after["sk"]),
                (&text("shop"), &text("shop#1"))
            );
            let listed = |name: &str| page.names.values().any(|listed| listed == name);
            assert_eq!(["sk", "status", "data"].map(listed), [true, true, false]);
            let columns = page.projection.split(", ").count();
            assert_eq!(columns, 1 + Attribute::ALL.len() - UNLISTED.len());
        }
    }

    #[test]
    fn the_id_of_an_item_is_the_text_of_its_own_key_attribute() {
        let item =
            || Item::from([("id", "shop"), ("sk", "shop#1")].map(|(k, v)| (k.to_owned(), text(v))));
        for (is_composite, id, name) in [(false, "shop", "id"), (true, "shop#1", "sk")] {
            let store = store(is_composite);
            assert_eq!(store.id(&mut item()).unwrap(), id);
            let error = store.id(&mut Item::new()).unwrap_err().to_string();
            assert!(error.contains(&format!("`{name}`")), "{error}");
        }
    }
}
