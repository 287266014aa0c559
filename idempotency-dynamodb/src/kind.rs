//! The kind `dynamodb` of `IDEMPOTENCY_STORE`.

use idempotency_core::store::{StoreKind, StoreUse};

use crate::config::TableConfig;
use crate::store::DynamoDbStore;

impl DynamoDbStore {
    /// Returns the kind of these stores.
    #[doc(hidden)]
    pub fn kind<S: StoreUse + ?Sized>() -> StoreKind<S> {
        StoreKind {
            name: "dynamodb",
            variables: TableConfig::VARIABLES,
            warning: None,
            check: TableConfig::check,
            open: |variables| {
                Box::pin(async move {
                    let table = TableConfig::from_variables(variables)?;
                    Ok(S::shared(table.connect().await?))
                })
            },
        }
    }
}
