//! The statements: each is one round trip, and has every value as a parameter.

mod condition;
mod parameters;

use std::fmt::Write as _;
use std::time::Duration;

use idempotency_core::record::{Attribute, Record, RecordId};
use idempotency_core::store::{Condition, RecordWrite, ScanRequest, Write};

use self::parameters::Parameters;
pub(crate) use self::parameters::{OTHER_STATEMENT, Statement};

use crate::columns::{self, ID, Value, stored};
use crate::table::TableName;

/// The columns of the reply to a write.
pub(crate) const APPLIED: &str = "applied";
/// Whether the condition held. NULL if there was no record.
pub(crate) const HELD: &str = "held";

/// Begins the transaction of a handler, and marks it: the mark ends with it. It ends itself if it waits for longer than `left`. No query is in
/// it, because the handler can set its isolation level until the first one.
pub(crate) fn begin(left: Option<Duration>) -> String {
    let mut text = "BEGIN; SET LOCAL idempotency.transaction = 'open'".to_owned();
    if let Some(left) = left {
        let left = left.as_millis().clamp(1_000, LONGEST);
        for limit in ["lock_timeout", "idle_in_transaction_session_timeout"] {
            push(&mut text, format_args!("; SET LOCAL {limit} = {left}"));
        }
    }
    text
}

/// The longest limit of the server, in milliseconds.
const LONGEST: u128 = i32::MAX as u128;
/// What the error of the server quotes if the transaction of the handler has ended.
pub(crate) const NOT_OPEN: &str = "not in the transaction of the handler ";

/// Returns an expression that has the value of `then` in the transaction of a handler, and fails outside of it.
pub(crate) fn if_open(then: &str) -> String {
    // The clock keeps the server from evaluating the error before the test.
    format!(
        "CASE WHEN current_setting('idempotency.transaction', true) = 'open' THEN {then} \
         ELSE (('{NOT_OPEN}' || clock_timestamp())::bigint)::text END"
    )
}

/// Returns a write that waits for at most `wait` for another transaction with the row. If it is `in_open` transaction of a handler, it fails
/// outside of that.
///
/// It reads the record, evaluates the condition on what it read, and writes if the row is still that version: its `xmin` names the
/// transaction that made it, and no transaction of a store makes two versions of a row. So a write whose condition does not hold takes
/// no lock and leaves nothing in the log of the server, what a put replaced is known in every version of PostgreSQL, and a write that lost
/// a race changes nothing. Its reply has one row: see [`APPLIED`] and [`HELD`]. Neither applied nor refused means that another transaction
/// was faster.
pub(crate) fn write(
    table: &TableName,
    record: RecordWrite<'_>,
    wait: Duration,
    in_open: bool,
) -> Statement {
    let RecordWrite {
        id,
        write,
        condition,
    } = record;
    let mut parameters = Parameters::new();
    let id = parameters.id(id);
    let held = condition::render(condition, &mut parameters);
    let holds_without = condition.holds(None);
    let (change, set) = match write {
        Write::Put(record) => {
            let set = values(record, &[], &mut parameters);
            let all = Attribute::ALL.map(|attribute| {
                let value = set.iter().find(|(of, _)| *of == attribute);
                let value = value.map_or("NULL", |(_, value)| value);
                format!("{} = {value}", attribute.default_name())
            });
            (update(table, &id, &all.join(", "), ""), set)
        }
        Write::Update(change) => {
            let set = values(&change.set, &change.remove, &mut parameters);
            let kept = set.iter().map(|(of, value)| (*of, value.as_str()));
            let removed = Attribute::ALL
                .into_iter()
                .filter(|of| change.remove.contains(of));
            let all = kept.chain(removed.map(|of| (of, "NULL")));
            let all: Vec<_> = all
                .map(|(of, value)| format!("{} = {value}", of.default_name()))
                .collect();
            // An update of nothing is applied too, if its condition holds.
            let all = if all.is_empty() {
                format!("{ID} = t.{ID}")
            } else {
                all.join(", ")
            };
            (update(table, &id, &all, ""), set)
        }
        Write::Delete => {
            let delete = format!("DELETE FROM {table} AS t USING r WHERE t.{ID} = {id}");
            (delete, Vec::new())
        }
        Write::Step { name, result } => {
            let [name, result] =
                columns::step(name, result).map(|it| parameters.add(Value::Text(it)));
            let steps = Attribute::Steps.default_name();
            let added = format!("{steps} = t.{steps} || ARRAY[{name}, {result}]");
            let only = format!(" AND t.{steps} IS NOT NULL");
            (update(table, &id, &added, &only), Vec::new())
        }
    };
    let inserts = holds_without && matches!(write, Write::Put(_) | Write::Update(_));
    let insert = if inserts {
        insert(table, &id, &set)
    } else {
        String::new()
    };
    // Only a put says what it replaced.
    let returned = if matches!(write, Write::Put(_)) {
        "true"
    } else {
        "NOT a.applied"
    };
    let wait = parameters.text(&wait.as_millis().max(1).to_string());
    let mut wait = format!("set_config('lock_timeout', {wait}, true)");
    let mut place = "alone";
    if in_open {
        place = "open";
        wait = if_open(&wait);
    }
    let own = parameters.own(&[&held, &change, &insert, returned, place], &wait);
    let mut text = format!("WITH r AS MATERIALIZED (SELECT xmin AS version, {held} AS {HELD}");
    columns::read().for_each(|it| push(&mut text, format_args!(", {}", it.default_name())));
    push(
        &mut text,
        format_args!(
            " FROM {table} WHERE {ID} = {id} AND (SELECT {own}) IS NOT NULL), w AS ({change} AND r.{HELD} AND t.xmin = r.version RETURNING 1)"
        ),
    );
    text.push_str(&insert);
    push(&mut text, format_args!(" SELECT a.{APPLIED}, r.{HELD}"));
    columns::read().for_each(|it| push(&mut text, format_args!(", r.{}", it.default_name())));
    let inserted = if inserts {
        " OR EXISTS (SELECT FROM i)"
    } else {
        ""
    };
    push(
        &mut text,
        format_args!(
            " FROM (SELECT EXISTS (SELECT FROM w){inserted} AS {APPLIED}) a LEFT JOIN r ON {returned}"
        ),
    );
    parameters.end(text)
}

fn push(text: &mut String, more: std::fmt::Arguments<'_>) {
    // A `String` takes every text.
    let _ = text.write_fmt(more);
}

fn update(table: &TableName, id: &str, set: &str, only: &str) -> String {
    format!("UPDATE {table} AS t SET {set} FROM r WHERE t.{ID} = {id}{only}")
}

/// Returns the insert of a row, if there was none.
fn insert(table: &TableName, id: &str, set: &[(Attribute, String)]) -> String {
    let names = set.iter().map(|(of, _)| of.default_name());
    let names: Vec<_> = [ID].into_iter().chain(names).collect();
    let values = set.iter().map(|(_, value)| value.as_str());
    let values: Vec<_> = [id].into_iter().chain(values).collect();
    format!(
        ", i AS (INSERT INTO {table} ({}) SELECT {} WHERE NOT EXISTS (SELECT FROM r) ON CONFLICT ({ID}) DO NOTHING RETURNING 1)",
        names.join(", "),
        values.join(", ")
    )
}

/// Returns each attribute that has a value and is not removed, and how the statement names the value.
fn values(
    set: &Record,
    remove: &[Attribute],
    parameters: &mut Parameters,
) -> Vec<(Attribute, String)> {
    let kept = set
        .fields()
        .filter(|(attribute, _)| !remove.contains(attribute));
    kept.map(|(attribute, value)| (attribute, parameters.add(value)))
        .collect()
}

/// The columns of the reply to a read that are no attributes.
pub(crate) const IS_STANDBY: &str = "is_standby";
/// Whether there is a record.
pub(crate) const IS_PRESENT: &str = "is_present";

/// Returns the read of a record, with these attributes. Its reply has one row: see [`IS_STANDBY`] and [`IS_PRESENT`].
pub(crate) fn read(
    table: &TableName,
    id: &RecordId,
    attributes: impl Iterator<Item = Attribute>,
) -> Statement {
    let mut parameters = Parameters::new();
    let id = parameters.id(id);
    let mut read = String::new();
    attributes.for_each(|it| push(&mut read, format_args!(", r.{}", it.default_name())));
    let own = parameters.own(&["read", &table.to_string(), &read], "'own'");
    parameters.end(format!(
        "WITH a AS MATERIALIZED (SELECT pg_is_in_recovery() AS {IS_STANDBY}, {own} AS own) \
         SELECT a.{IS_STANDBY}, r.{ID} IS NOT NULL AS {IS_PRESENT}{read} FROM a LEFT JOIN {table} AS r ON r.{ID} = {id} WHERE a.own = 'own'"
    ))
}

/// Returns the read of one page of a listing. Its rows have the id, the listed attributes, and [`HELD`].
pub(crate) fn scan(table: &TableName, request: ScanRequest<'_>) -> Statement {
    let mut parameters = Parameters::new();
    let prefix = stored(request.prefix);
    let mut range = format!("{ID} >= {}", parameters.text(&prefix));
    if let Some(end) = after_prefix(&prefix) {
        push(
            &mut range,
            format_args!(" AND {ID} < {}", parameters.text(&end)),
        );
    }
    if let Some(after) = request.after {
        push(
            &mut range,
            format_args!(" AND {ID} > {}", parameters.text(&stored(after))),
        );
    }
    let limit = i64::try_from(request.limit.max(1)).unwrap_or(i64::MAX);
    let limit = parameters.add(Value::Number(limit));
    let everything = Condition::All(Vec::new());
    let filter = request.filter.unwrap_or(&everything);
    let held = condition::render(filter, &mut parameters);
    let mut listed = String::new();
    columns::listed().for_each(|it| push(&mut listed, format_args!(", {}", it.default_name())));
    let own = parameters.own(&["scan", &table.to_string(), &range, &held], "'own'");
    parameters.end(format!(
        "SELECT {ID}, {held} AS {HELD}{listed} FROM {table} WHERE {range} AND (SELECT {own}) IS NOT NULL ORDER BY {ID} LIMIT {limit}"
    ))
}

/// Returns the first text after all that begin with `prefix`, byte by byte. `None` if there is none.
fn after_prefix(prefix: &str) -> Option<String> {
    let mut letters = prefix.chars();
    while let Some(last) = letters.next_back() {
        if let Some(next) = (last..=char::MAX).nth(1) {
            return Some(format!("{}{next}", letters.as_str()));
        }
    }
    None
}

#[cfg(test)]
mod tests;
