//! Creates a versioned item.

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::{AttributeValue, Put};

use super::layout::Layout;
use super::prepared::{PreparedWrite, Write, WrittenItem};
use super::{VersionedError, new_token};
use crate::error::InvalidExpression;
use crate::expression::{UserExpressions, check_key, not_built};
use crate::send::Item;

/// The creation of an item: made by [`create`](super::create). `Debug` shows no attribute.
#[must_use = "nothing is sent before `send`"]
pub struct Create {
    pub(super) layout: Layout,
    pub(super) table: String,
    pub(super) key: Item,
    pub(super) attributes: Item,
}

impl Create {
    /// Adds an attribute.
    pub fn attribute(mut self, name: impl Into<String>, value: AttributeValue) -> Self {
        self.attributes.insert(name.into(), value);
        self
    }

    /// Adds attributes.
    pub fn attributes(
        mut self,
        attributes: impl IntoIterator<Item = (String, AttributeValue)>,
    ) -> Self {
        self.attributes.extend(attributes);
        self
    }

    /// Builds the write without sending it.
    ///
    /// # Errors
    ///
    /// [`VersionedError::Invalid`] and [`VersionedError::Random`].
    pub fn prepare(self) -> Result<PreparedWrite, VersionedError> {
        let key = self.key.keys().next();
        let key = key.ok_or_else(|| InvalidExpression::new("the key has no attribute"))?;
        check_key(&self.key, |name| self.layout.is_ours(name))?;
        let mut checked = UserExpressions::default().check(|_| false)?;
        let condition = format!("attribute_not_exists({})", checked.name("key", key));
        for name in self.attributes.keys() {
            let problem = if self.layout.is_ours(name) {
                "only this library may write"
            } else if self.key.contains_key(name) {
                "is part of the key"
            } else {
                continue;
            };
            let text = format!("the item has the attribute `{name}`, which {problem}");
            return Err(InvalidExpression::new(text).into());
        }
        let (number, token) = (1, new_token()?);
        let mut item = self.attributes;
        item.extend(self.key);
        item.extend(self.layout.attributes(number, token));
        let put = Put::builder()
            .table_name(self.table)
            .set_item(Some(item))
            .condition_expression(condition)
            .set_expression_attribute_names(checked.take_names())
            .build()
            .map_err(not_built)?;
        Ok(PreparedWrite {
            write: Write::Create(put),
            layout: self.layout,
            expected: None,
            made: Some((number, token)),
            returns_item: false,
        })
    }

    /// Creates the item. Its version is 1.
    ///
    /// # Errors
    ///
    /// [`VersionedError::Conflict`] if there is an item that this creation has not made. Otherwise see [`VersionedError`].
    pub async fn send(self, client: &Client) -> Result<WrittenItem, VersionedError> {
        self.prepare()?.send(client).await
    }
}

impl std::fmt::Debug for Create {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let create = &mut f.debug_struct("Create");
        create.field("table", &self.table).finish_non_exhaustive()
    }
}
