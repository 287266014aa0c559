//! Reads pages of a table or of a partition, with the client of the AWS SDK.

use std::collections::HashMap;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::operation::query::QueryError;
use aws_sdk_dynamodb::operation::scan::ScanError;
use aws_sdk_dynamodb::types::ReturnConsumedCapacity;
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
    // The builders and the outputs of both operations are alike, and have no trait in common.
    macro_rules! page_of {
        ($call:expr, $error:ty) => {{
            let sent = $call
                .table_name(&sends.table.name)
                .set_filter_expression(request.filter)
                .projection_expression(request.projection)
                .set_expression_attribute_names(Some(request.names))
                .set_expression_attribute_values(values)
                .set_exclusive_start_key(request.after)
                .consistent_read(request.consistent)
                .limit(request.limit)
                .return_consumed_capacity(ReturnConsumedCapacity::Total)
                .customize()
                .config_override(noting::<$error>(sends.clone()))
                .send()
                .await
                .map_err(|error| sends.error(error))?;
            let consumed = sent.consumed_capacity;
            Page {
                items: sent.items.unwrap_or_default(),
                read: sent.scanned_count,
                read_units: consumed
                    .and_then(|it| it.capacity_units)
                    .unwrap_or_default(),
                last: sent.last_evaluated_key.filter(|key| !key.is_empty()),
            }
        }};
    }
    Ok(match request.key_condition {
        Some(condition) => {
            page_of!(
                client.query().key_condition_expression(condition),
                QueryError
            )
        }
        None => page_of!(client.scan(), ScanError),
    })
}
