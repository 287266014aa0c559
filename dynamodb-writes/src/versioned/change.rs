//! The writes of a versioned item: an update, a deletion and a creation.

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::{AttributeValue, Delete as SdkDelete, Put, Update as SdkUpdate};

use super::prepared::{PreparedWrite, WrittenItem};
use super::version::{Layout, Token, Version, number_value, token_value};
use super::{VersionedError, new_token};
use crate::error::InvalidExpression;
use crate::expression::{
    Clause, Expressions, UserExpressions, check_key, check_length, not_built, user_expressions,
};
use crate::item::{Hidden, Item};
use dynamodb_lean_client::sdk::{ALL_OLD, SdkWrite};

/// Returns the placeholder of an attribute of the key.
fn key_name(key: &Item, checked: &mut Expressions) -> Result<String, InvalidExpression> {
    let key = key.keys().next();
    let key = key.ok_or_else(|| InvalidExpression::new("the key has no attribute"))?;
    Ok(checked.name("key", key))
}

/// What an update and a deletion share: the expected version and the caller's condition.
#[derive(Clone, Debug)]
pub(super) struct Change {
    pub(super) layout: Layout,
    pub(super) table: String,
    pub(super) key: Hidden<Item>,
    pub(super) expected: Version,
    pub(super) user: Hidden<UserExpressions>,
    pub(super) returns_item: bool,
}

impl Change {
    /// Returns the checked expressions, and the condition that the item has the expected version.
    fn check(&self) -> Result<(Expressions, String), InvalidExpression> {
        check_key(&self.key, |name| self.layout.is_ours(name))?;
        let user = self.user.0.clone();
        let mut checked = user.check(|name| self.layout.is_ours(name))?;
        let number = checked.name("version", self.layout.number_name());
        let expected = &self.expected;
        let value = checked.value("version", number_value(expected.number()));
        let mut condition = if *expected == Version::NONE {
            let key = key_name(&self.key, &mut checked)?;
            // Some programs begin with version 0.
            format!(
                "attribute_exists({key}) AND (attribute_not_exists({number}) OR {number} = {value})"
            )
        } else {
            format!("{number} = {value}")
        };
        if let Some(token) = expected.token() {
            let name = checked.name("token", &self.layout.token_name(expected.number()));
            let value = checked.value("token", token_value(token));
            condition.push_str(&format!(" AND {name} = {value}"));
        }
        if let Some(user) = &checked.condition {
            condition.push_str(" AND ");
            condition.push_str(user);
        }
        Ok((checked, condition))
    }

    fn prepare_update(self, token: Token) -> Result<PreparedWrite, InvalidExpression> {
        let (mut checked, condition) = self.check()?;
        let number = self.expected.next()?;
        let [_, (token_name, _)] = self.layout.attributes(number, token);
        let set_number = checked.name("version", self.layout.number_name());
        let next = checked.value("next", number_value(number));
        let set_token = checked.name("made", &token_name);
        let made = checked.value("made", token_value(token));
        let action = format!("{set_number} = {next}, {set_token} = {made}");
        checked.clauses.add(Clause::Set, action);
        let update = checked.clauses.to_string();
        check_length("update expression", update.len())?;
        check_length("condition", condition.len())?;
        let update = SdkUpdate::builder()
            .table_name(self.table)
            .set_key(Some(self.key.0))
            .update_expression(update)
            .condition_expression(condition)
            .set_expression_attribute_names(Some(checked.names))
            .set_expression_attribute_values(Some(checked.values))
            .return_values_on_condition_check_failure(ALL_OLD)
            .build()
            .map_err(not_built)?;
        Ok(PreparedWrite {
            write: Hidden(SdkWrite::Update(update)),
            layout: self.layout,
            expected: Some(self.expected),
            made: Some((number, token)),
            returns_item: self.returns_item,
        })
    }

    fn prepare_delete(self) -> Result<PreparedWrite, InvalidExpression> {
        let (mut checked, condition) = self.check()?;
        let key = key_name(&self.key, &mut checked)?;
        let condition = format!("attribute_not_exists({key}) OR ({condition})");
        check_length("condition", condition.len())?;
        let delete = SdkDelete::builder()
            .table_name(self.table)
            .set_key(Some(self.key.0))
            .condition_expression(condition)
            .set_expression_attribute_names(Some(checked.names))
            .set_expression_attribute_values(Some(checked.values))
            .return_values_on_condition_check_failure(ALL_OLD)
            .build()
            .map_err(not_built)?;
        Ok(PreparedWrite {
            write: Hidden(SdkWrite::Delete(delete)),
            layout: self.layout,
            expected: Some(self.expected),
            made: None,
            returns_item: self.returns_item,
        })
    }
}

/// An update of an item: made by [`update`](super::Versioned::update). `Debug` shows no key and no value.
#[derive(Clone, Debug)]
#[must_use = "nothing is sent before `send`"]
pub struct Update(pub(super) Change);

/// A deletion of an item: made by [`delete`](super::Versioned::delete). `Debug` shows no key and no value.
#[derive(Clone, Debug)]
#[must_use = "nothing is sent before `send`"]
pub struct Delete(pub(super) Change);

impl Update {
    /// Sets the update expression, in DynamoDB's syntax, such as `SET balance = balance - :amount REMOVE hold`.
    ///
    /// It must not change the attributes of the version. They are added to it.
    pub fn expression(mut self, update: impl Into<String>) -> Self {
        self.0.user.update = Some(update.into());
        self
    }

    user_expressions! {
        0.user;
        /// Sets a further condition, in DynamoDB's syntax.
        ///
        /// If it does not hold for the expected version, the update ends in [`VersionedError::ConditionFailed`].
    }

    /// Asks for the new item: [`WrittenItem::item`]. It costs no capacity.
    pub fn return_item(mut self) -> Self {
        self.0.returns_item = true;
        self
    }

    /// Builds the write without sending it.
    ///
    /// # Errors
    ///
    /// [`VersionedError::Invalid`] and [`VersionedError::Random`].
    pub fn prepare(self) -> Result<PreparedWrite, VersionedError> {
        let token = new_token()?;
        self.0
            .prepare_update(token)
            .map_err(VersionedError::Invalid)
    }

    /// Updates the item if it has the expected version, and raises the version by one.
    ///
    /// # Errors
    ///
    /// [`VersionedError::Conflict`] if it has another version or is absent. [`VersionedError::ConditionFailed`] if it has the
    /// expected version and the condition does not hold. Otherwise see [`VersionedError`].
    pub async fn send(self, client: &Client) -> Result<WrittenItem, VersionedError> {
        self.prepare()?.send(client).await
    }
}

impl Delete {
    user_expressions! {
        0.user;
        /// Sets a further condition, in DynamoDB's syntax. An absent item is a success in any case.
    }

    /// Asks for the deleted item: [`WrittenItem::item`]. It costs no capacity.
    pub fn return_item(mut self) -> Self {
        self.0.returns_item = true;
        self
    }

    /// Builds the write without sending it.
    ///
    /// # Errors
    ///
    /// [`VersionedError::Invalid`].
    pub fn prepare(self) -> Result<PreparedWrite, VersionedError> {
        self.0.prepare_delete().map_err(VersionedError::Invalid)
    }

    /// Deletes the item if it has the expected version. If there is no item, that is a success.
    ///
    /// # Errors
    ///
    /// [`VersionedError::Conflict`] if it has another version. [`VersionedError::ConditionFailed`] if it has the expected version
    /// and the condition does not hold. Otherwise see [`VersionedError`].
    pub async fn send(self, client: &Client) -> Result<WrittenItem, VersionedError> {
        self.prepare()?.send(client).await
    }
}

/// The creation of an item: made by [`create`](super::Versioned::create). `Debug` shows no attribute.
#[derive(Debug)]
#[must_use = "nothing is sent before `send`"]
pub struct Create {
    pub(super) layout: Layout,
    pub(super) table: String,
    pub(super) key: Hidden<Item>,
    pub(super) attributes: Hidden<Item>,
}

impl Create {
    /// Adds an attribute.
    pub fn attribute(mut self, name: impl Into<String>, value: AttributeValue) -> Self {
        self.attributes.insert(name.into(), value);
        self
    }

    /// Builds the write without sending it.
    ///
    /// # Errors
    ///
    /// [`VersionedError::Invalid`] and [`VersionedError::Random`].
    pub fn prepare(self) -> Result<PreparedWrite, VersionedError> {
        let token = new_token()?;
        self.prepare_with(token).map_err(VersionedError::Invalid)
    }

    fn prepare_with(self, token: Token) -> Result<PreparedWrite, InvalidExpression> {
        check_key(&self.key, |name| self.layout.is_ours(name))?;
        let mut checked = UserExpressions::default().check(|_| false)?;
        let key = key_name(&self.key, &mut checked)?;
        let condition = format!("attribute_not_exists({key})");
        for name in self.attributes.keys() {
            let problem = if self.layout.is_ours(name) {
                "only this library may write"
            } else if self.key.contains_key(name) {
                "is part of the key"
            } else {
                continue;
            };
            let text = format!("the item has the attribute `{name}`, which {problem}");
            return Err(InvalidExpression::new(text));
        }
        let number = 1;
        let mut item = self.attributes.0;
        item.extend(self.key.0);
        item.extend(self.layout.attributes(number, token));
        let put = Put::builder()
            .table_name(self.table)
            .set_item(Some(item))
            .condition_expression(condition)
            .set_expression_attribute_names(Some(checked.names))
            .return_values_on_condition_check_failure(ALL_OLD)
            .build()
            .map_err(not_built)?;
        Ok(PreparedWrite {
            write: Hidden(SdkWrite::Put(put)),
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
