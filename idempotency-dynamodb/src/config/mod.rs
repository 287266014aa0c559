//! The settings of a store: of its builder, and from environment variables.

mod attribute_names;
mod builder;
mod table_config;

pub use attribute_names::AttributeNames;
pub(crate) use attribute_names::{Composite, Further, MAX_PARTITION_BYTES, MAX_SORT_BYTES};
pub use builder::DynamoDbStoreBuilder;
pub use table_config::TableConfig;
