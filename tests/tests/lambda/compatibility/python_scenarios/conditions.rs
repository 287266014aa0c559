//! The records that a condition lets through, evaluated by a DynamoDB on every kind of existing record.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::SdkError;
use aws_sdk_dynamodb::types::AttributeValue;
use idempotency_lambda::BoxError;
use idempotency_testkit::dynamodb::{EmbeddedDynamoDb, TableSpec};
use serde_json::Value;

use super::ours::attribute;

const TABLE: &str = "conditions";

/// An existing record. Its times are relative to the claim's: in seconds and in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Standing {
    pub(crate) status: Option<&'static str>,
    pub(crate) expiration: Option<i64>,
    pub(crate) lease: Option<i64>,
    pub(crate) owner: Option<Owner>,
}

/// The owner of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Owner {
    /// The owner that the condition names.
    Named,
    /// Another owner.
    Another,
}

/// The records that a condition lets through; `None` stands for no record.
pub(crate) type LetThrough = BTreeSet<Option<Standing>>;

/// A DynamoDB that is used only to evaluate conditions.
pub(crate) struct Conditions {
    database: EmbeddedDynamoDb,
    client: Client,
    known: Mutex<BTreeMap<String, LetThrough>>,
}

/// The time at which a condition is evaluated, and the token that it names.
#[derive(Debug)]
pub(crate) struct Moment<'a> {
    pub(crate) now_ms: i64,
    pub(crate) owner: &'a str,
}

impl Conditions {
    pub(crate) async fn start() -> Result<Self, BoxError> {
        let database = EmbeddedDynamoDb::start().await?;
        database.create_table(TableSpec::new(TABLE)).await?;
        let client = database.client();
        Ok(Self {
            database,
            client,
            known: Mutex::default(),
        })
    }

    /// Returns the records that the condition of a request lets through.
    pub(crate) async fn let_through(
        &self,
        request: &Value,
        moment: &Moment<'_>,
    ) -> Result<LetThrough, BoxError> {
        let condition = Condition::of(request);
        let asked = format!("{condition:?} {moment:?}");
        let known = self.known.lock().unwrap().get(&asked).cloned();
        if let Some(known) = known {
            return Ok(known);
        }
        let mut through = LetThrough::new();
        for standing in standings() {
            if self.holds(&condition, moment, standing).await? {
                through.insert(standing);
            }
        }
        self.known.lock().unwrap().insert(asked, through.clone());
        Ok(through)
    }

    async fn holds(
        &self,
        condition: &Condition,
        moment: &Moment<'_>,
        standing: Option<Standing>,
    ) -> Result<bool, BoxError> {
        let item = item(standing, moment);
        match standing {
            Some(_) => self.database.put(TABLE, item.clone()).await?,
            None => self.database.delete(TABLE, [("id", "record")]).await?,
        }
        let (names, values) = (condition.names.clone(), condition.values.clone());
        let put = self
            .client
            .put_item()
            .table_name(TABLE)
            .set_item(Some(item.into_iter().collect()))
            .set_condition_expression(condition.expression.clone())
            .set_expression_attribute_names(Some(names.into_iter().collect()).filter(not_empty))
            .set_expression_attribute_values(Some(values.into_iter().collect()).filter(not_empty))
            .send()
            .await;
        match put.map_err(SdkError::into_service_error) {
            Err(error) if error.is_conditional_check_failed_exception() => Ok(false),
            put => Ok(put.map(|_| true)?),
        }
    }
}

/// The condition of a request, without names and values that only its changes use: DynamoDB refuses unused ones.
#[derive(Debug)]
struct Condition {
    expression: Option<String>,
    names: BTreeMap<String, String>,
    values: BTreeMap<String, AttributeValue>,
}

impl Condition {
    fn of(request: &Value) -> Self {
        let expression = request["ConditionExpression"].as_str();
        let used = |part: &str| {
            let entries = request[part].as_object().into_iter().flatten();
            entries.filter(|(name, _)| expression.is_some_and(|text| mentions(text, name)))
        };
        let name = |(name, of): (&String, &Value)| (name.clone(), of.as_str().unwrap().to_owned());
        let value = |(name, value): (&String, &Value)| (name.clone(), attribute(value));
        Self {
            expression: expression.map(str::to_owned),
            names: used("ExpressionAttributeNames").map(name).collect(),
            values: used("ExpressionAttributeValues").map(value).collect(),
        }
    }
}

fn not_empty<V>(map: &std::collections::HashMap<String, V>) -> bool {
    !map.is_empty()
}

/// Returns true if the expression contains the placeholder, and not only as the prefix of a longer one.
fn mentions(expression: &str, placeholder: &str) -> bool {
    let word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '#' | ':');
    expression
        .split(|c: char| !word(c))
        .any(|found| found == placeholder)
}

/// Returns no record, and every combination of a record's attributes.
fn standings() -> Vec<Option<Standing>> {
    let mut all = vec![None];
    for status in [None, Some("INPROGRESS"), Some("COMPLETED"), Some("FOO")] {
        for expiration in [None, Some(-1), Some(0), Some(1)] {
            for lease in [None, Some(-1), Some(0), Some(1)] {
                // No condition joins owner and times, so one pair of times is enough.
                let owners: &[_] = match (expiration, lease) {
                    (Some(1), Some(1)) => &[None, Some(Owner::Named), Some(Owner::Another)],
                    _ => &[None],
                };
                all.extend(owners.iter().map(|owner| {
                    Some(Standing {
                        status,
                        expiration,
                        lease,
                        owner: *owner,
                    })
                }));
            }
        }
    }
    all
}

fn item(standing: Option<Standing>, moment: &Moment<'_>) -> Vec<(String, AttributeValue)> {
    let mut item = vec![("id", AttributeValue::S("record".to_owned()))];
    if let Some(standing) = standing {
        let text = |text: &str| AttributeValue::S(text.to_owned());
        let number = |number: i64| AttributeValue::N(number.to_string());
        item.extend(standing.status.map(|status| ("status", text(status))));
        let now_s = moment.now_ms.div_euclid(1_000);
        let expiration = standing.expiration.map(|by| number(now_s + by));
        item.extend(expiration.map(|expiration| ("expiration", expiration)));
        let lease = standing.lease.map(|by| number(moment.now_ms + by));
        item.extend(lease.map(|lease| ("in_progress_expiration", lease)));
        let owner = standing.owner.map(|owner| match owner {
            Owner::Named => moment.owner,
            Owner::Another => "another",
        });
        item.extend(owner.map(|owner| ("owner", text(owner))));
    }
    item.into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}
