//! Reads pages of a table or of a partition, with the client of the AWS SDK.

use std::collections::HashMap;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::operation::query::QueryError;
use aws_sdk_dynamodb::operation::scan::ScanError;
use aws_sdk_dynamodb::types::{ConsumedCapacity, ReturnConsumedCapacity};
use dynamodb_lean_client::sdk::noting;
use idempotency_core::store::StoreError;

use crate::sends::Sends;
use crate::value::Item;

/// A request for one page.
pub(crate) struct PageRequest {
    /// The condition on the key of a query. `None`: a scan of the whole table.
    pub(crate) key_condition: Option<String>,
    pub(crate) filter: Option<String>,
    pub(crate) projection: String,
    pub(crate) names: HashMap<String, String>,
    /// Can be empty.
    pub(crate) values: Item,
    pub(crate) consistent: bool,
    pub(crate) limit: i32,
    /// The key of the last item of the page before.
    pub(crate) after: Option<Item>,
}

/// One page.
pub(crate) struct Page {
    pub(crate) items: Vec<Item>,
    /// How many items were read, before the filter.
    pub(crate) read: i32,
    pub(crate) read_units: f64,
    /// The key of the last item. `None` at the end.
    pub(crate) last: Option<Item>,
}

/// Reads a page of the table of `sends`.
pub(super) async fn read(
    client: &Client,
    request: PageRequest,
    sends: &Sends,
) -> Result<Page, StoreError> {
    // DynamoDB rejects an empty map.
    let values = Some(request.values).filter(|values| !values.is_empty());
    let table = &sends.table.name;
    let total = ReturnConsumedCapacity::Total;
    if request.key_condition.is_some() {
        let query = client.query().table_name(table);
        let sent = query
            .set_key_condition_expression(request.key_condition)
            .set_filter_expression(request.filter)
            .projection_expression(request.projection)
            .set_expression_attribute_names(Some(request.names))
            .set_expression_attribute_values(values)
            .set_exclusive_start_key(request.after)
            .consistent_read(request.consistent)
            .limit(request.limit)
            .return_consumed_capacity(total)
            .customize()
            .config_override(noting::<QueryError>(sends.clone()))
            .send()
            .await
            .map_err(|error| sends.error(error))?;
        let (items, last) = (sent.items, sent.last_evaluated_key);
        return Ok(page(
            items,
            sent.scanned_count,
            sent.consumed_capacity,
            last,
        ));
    }
    let scan = client.scan().table_name(table);
    let sent = scan
        .set_filter_expression(request.filter)
        .projection_expression(request.projection)
        .set_expression_attribute_names(Some(request.names))
        .set_expression_attribute_values(values)
        .set_exclusive_start_key(request.after)
        .consistent_read(request.consistent)
        .limit(request.limit)
        .return_consumed_capacity(total)
        .customize()
        .config_override(noting::<ScanError>(sends.clone()))
        .send()
        .await
        .map_err(|error| sends.error(error))?;
    let (items, last) = (sent.items, sent.last_evaluated_key);
    Ok(page(
        items,
        sent.scanned_count,
        sent.consumed_capacity,
        last,
    ))
}

fn page(
    items: Option<Vec<Item>>,
    read: i32,
    consumed: Option<ConsumedCapacity>,
    last: Option<Item>,
) -> Page {
    Page {
        items: items.unwrap_or_default(),
        read,
        read_units: consumed
            .and_then(|it| it.capacity_units)
            .unwrap_or_default(),
        last: last.filter(|key| !key.is_empty()),
    }
}
