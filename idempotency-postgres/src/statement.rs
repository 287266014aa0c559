//! The statements: each is one round trip, and has every value as a parameter.

mod condition;
mod parameters;

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use idempotency_core::record::{Attribute, Record, RecordId};
use idempotency_core::store::{Condition, RecordWrite, ScanRequest, UNLISTED, Write};

use self::parameters::{Parameters, Text};
pub(crate) use self::parameters::{Reply, Statement};

use crate::columns::{self, ID, Value, stored};

/// Returns the statements that begin a transaction, of a handler or of a statement behind a pooler. They set [`MARK`], which the server
/// forgets at the end of the transaction. The server ends a transaction that waits for longer than `left`.
///
/// No query is among them, because the handler can set the isolation level only before the first query.
pub(crate) fn begin(left: Option<Duration>) -> String {
    let begin = format!("BEGIN; SET LOCAL {MARK} = 'open'");
    let Some(left) = left else { return begin };
    // The largest limit that the server accepts.
    let left = left.as_millis().clamp(1_000, i32::MAX as u128);
    format!(
        "{begin}; SET LOCAL lock_timeout = '{left}'; SET LOCAL idle_in_transaction_session_timeout = '{left}'"
    )
}

/// The setting with which [`begin`] marks a transaction. If the transaction has ended, the error of the server quotes this name.
pub(crate) const MARK: &str = "idempotency.transaction";

/// What the error of the server quotes if it executed another statement than the one that was sent.
pub(crate) const OTHER_STATEMENT: &str = "another statement than the one that was sent";

/// An expression that is true in the transaction of a handler, and fails outside of it with an error that quotes [`MARK`].
pub(crate) const IN_TRANSACTION: &str = "(CASE WHEN current_setting('idempotency.transaction', true) = 'open' THEN 't' \
     ELSE 'idempotency.transaction is not open' END)::bool";

/// The most texts that a store keeps. The requests of the protocol have fewer.
const MOST_TEXTS: usize = 64;

/// The statements on a table. The text of a statement depends on its [`Shape`] alone, and is kept with its shape.
pub(crate) struct Statements {
    /// The name of the table, with its schema, as SQL writes it.
    pub(crate) table: String,
    texts: Mutex<Vec<(Shape, Text)>>,
}

/// What the text of a statement depends on.
#[derive(PartialEq)]
struct Shape {
    kind: Kind,
    /// True in the transaction of a handler.
    in_open: bool,
    /// The attributes that get a value, a bit for each.
    set: u16,
    removed: u16,
    condition: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Insert,
    Swap,
    Update,
    Delete,
    Step,
    Read { event: bool },
}

/// How a write is sent.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Insert,
    Change,
    /// A change in the transaction of a handler, which has limits of its own. Outside of that transaction it fails.
    InOpen,
}

/// Returns the text of a statement, and its mark: a digest of the text. `text` makes the text for a mark.
///
/// Some poolers keep no prepared statements for their clients. There the name of a prepared statement can execute that of another client, which
/// has another condition. The mark detects this.
fn marked(text: impl Fn(i64) -> String) -> Text {
    let mut hasher = DefaultHasher::new();
    text(0).hash(&mut hasher);
    // Two bits less, so that the milliseconds of a wait can be added.
    let mark = (hasher.finish() >> 2).cast_signed();
    (text(mark).into(), mark)
}

/// Returns an expression that is true if the parameter with this number is the mark, and fails otherwise.
fn checked(number: usize, mark: i64) -> String {
    format!("(CASE WHEN ${number} = {mark} THEN 't' ELSE '{OTHER_STATEMENT}' END)::bool")
}

impl Statements {
    pub(crate) fn new(table: String) -> Self {
        Self {
            table,
            texts: Mutex::default(),
        }
    }

    /// Returns the statement of a write: an insert, or a change.
    ///
    /// An insert writes what a put or an update sets, if there is no record. Its reply is one row: the mark if it was applied, else the record
    /// that was there. The record is read first, because such a read takes no lock, waits for no other transaction, and leaves no error in the
    /// log of the server. No row means that another transaction was faster.
    ///
    /// A change is applied to a record for which its condition holds. Its reply counts one row if it was applied. For a put this row has the
    /// record that was replaced. A put reads the row, and changes it if its `xmin` is still the same: `xmin` names the transaction that made
    /// this version of the row, and no transaction of a store makes two. So every version of PostgreSQL tells what was replaced.
    pub(crate) fn write(&self, record: RecordWrite<'_>, form: Form, wait: Duration) -> Statement {
        let mut parameters = Parameters::of(record.id);
        let nothing = Record::default();
        let (kind, set, removed): (_, _, &[_]) = match record.write {
            Write::Put(put) => (Kind::Swap, put, &[]),
            Write::Update(change) => (Kind::Update, &change.set, &change.remove),
            Write::Delete => (Kind::Delete, &nothing, &[]),
            Write::Step { name, result } => {
                let added = columns::step(name, result).into_iter();
                added.for_each(|it| parameters.add(Value::Text(it)));
                (Kind::Step, &nothing, &[])
            }
        };
        let is_insert = form == Form::Insert;
        let kind = if is_insert { Kind::Insert } else { kind };
        let mut shape = Shape::of(kind, set, removed, &mut parameters);
        shape.in_open = form == Form::InOpen;
        if kind == Kind::Swap {
            // A put leaves nothing of the record.
            shape.removed = !shape.set;
        }
        if !is_insert {
            condition::render(record.condition, &mut shape.condition, &mut parameters);
        }
        // For the server a limit of zero is no limit.
        let wait = wait.as_millis().max(1) * u128::from(!shape.in_open);
        let wait = u32::try_from(wait).unwrap_or(u32::MAX);
        self.statement(shape, parameters, wait)
    }

    /// Returns the read of a record. Its reply has one row: whether the server is a standby, and the record, if there is one.
    pub(crate) fn read(&self, id: &RecordId, event: bool) -> Statement {
        let mut parameters = Parameters::of(id);
        let kind = Kind::Read { event };
        let shape = Shape::of(kind, &Record::default(), &[], &mut parameters);
        self.statement(shape, parameters, 0)
    }

    /// Returns the read of one page of a listing. A row of its reply has three things: whether the filter holds, the record, the id.
    pub(crate) fn scan(&self, request: ScanRequest<'_>) -> Statement {
        let mut parameters = Parameters::default();
        let prefix = stored(request.prefix);
        let bounds = [
            (">=", Some(prefix.to_string())),
            ("<", after_prefix(&prefix)),
            (">", request.after.map(|after| stored(after).into_owned())),
        ];
        let mut range = String::new();
        for (operator, bound) in bounds {
            if let Some(bound) = bound {
                parameters.add(Value::Text(bound.into()));
                range += &format!("{ID} {operator} ${} AND ", parameters.len());
            }
        }
        let limit = i64::try_from(request.limit.max(1)).unwrap_or(i64::MAX);
        parameters.add(Value::Number(limit));
        let limit = parameters.len();
        let everything = Condition::All(Vec::new());
        let mut held = String::new();
        let filter = request.filter.unwrap_or(&everything);
        condition::render(filter, &mut held, &mut parameters);
        let listed = columns::list(&format!("({held})::text"), |it| !UNLISTED.contains(&it));
        let (table, next) = (&self.table, parameters.len() + 1);
        let text = marked(|mark| {
            let own = checked(next, mark);
            format!(
                "SELECT {listed}, {ID} FROM {table} WHERE {range}{own} ORDER BY {ID} LIMIT ${limit}"
            )
        });
        parameters.end(text, 0, Reply::Rows)
    }

    /// Returns a statement of this shape. A change waits for at most `wait` milliseconds for another transaction.
    fn statement(&self, shape: Shape, parameters: Parameters, wait: u32) -> Statement {
        let reply = match shape.kind {
            Kind::Update | Kind::Delete | Kind::Step => Reply::Count,
            Kind::Insert | Kind::Swap | Kind::Read { .. } => Reply::Row,
        };
        let next = parameters.len() + 1;
        let mut kept = self.texts.lock().unwrap_or_else(PoisonError::into_inner);
        let text = match kept.iter().find(|(it, _)| *it == shape) {
            Some((_, text)) => text.clone(),
            None => {
                let text = marked(|mark| shape.text(&self.table, next, mark));
                if kept.len() < MOST_TEXTS {
                    kept.push((shape, text.clone()));
                }
                text
            }
        };
        parameters.end(text, wait, reply)
    }
}

const fn bit(attribute: Attribute) -> u16 {
    1 << attribute as u16
}

impl Shape {
    /// Returns the shape of a write that sets and removes these attributes. An attribute in both is removed.
    fn of(kind: Kind, set: &Record, removed: &[Attribute], parameters: &mut Parameters) -> Self {
        let mut shape = Self {
            kind,
            in_open: false,
            set: 0,
            removed: removed.iter().fold(0, |all, it| all | bit(*it)),
            condition: String::new(),
        };
        for (attribute, value) in set.fields() {
            if shape.removed & bit(attribute) == 0 {
                shape.set |= bit(attribute);
                parameters.add(value);
            }
        }
        shape
    }

    /// Returns an expression that a change evaluates for its row. It fails if the parameter with this number belongs to another statement.
    ///
    /// The parameter is the mark plus the milliseconds for which the change waits for another transaction. The expression sets this limit for
    /// its own statement. With another mark the difference is no limit that the server accepts. In the transaction of a handler the parameter is
    /// the mark alone, because [`begin`] has set the limit.
    fn guard(&self, number: usize, mark: i64) -> String {
        if self.in_open {
            let mark =
                format!("CASE WHEN ${number} = {mark} THEN '{MARK}' ELSE '{OTHER_STATEMENT}' END");
            return format!("current_setting({mark}) = 'open'");
        }
        let wait = format!("coalesce((${number} - {mark})::text, '{OTHER_STATEMENT}')");
        format!("set_config('lock_timeout', {wait}, true) IS NOT NULL")
    }

    /// Returns the text. The last parameter has the number `last`.
    fn text(&self, table: &str, last: usize, mark: i64) -> String {
        // The first parameter is the id. Those of the values follow.
        let mut number = 1;
        let values = Attribute::ALL.map(|attribute| {
            let is_set = self.set & bit(attribute) != 0;
            number += usize::from(is_set);
            let value = is_set.then(|| format!("${number}"));
            (attribute, value)
        });
        let changed = values.iter().filter_map(|(attribute, value)| {
            let is_changed = value.is_some() || self.removed & bit(*attribute) != 0;
            let value = value.as_deref().unwrap_or("NULL");
            is_changed.then(|| format!("{} = {value}", attribute.default_name()))
        });
        let mut set = changed.collect::<Vec<_>>().join(", ");
        // An update of nothing is applied too, if its condition holds.
        if set.is_empty() {
            set = format!("{ID} = {ID}");
        }
        let read = |flag: &str| columns::list(flag, columns::is_read);
        let guard = self.guard(last, mark);
        let here = format!("{ID} = $1 AND {guard} AND {}", self.condition);
        let steps = Attribute::Steps.default_name();
        match self.kind {
            Kind::Insert => {
                let (mut names, mut inserted) = (ID.to_owned(), "$1".to_owned());
                for (attribute, value) in &values {
                    if let Some(value) = value {
                        names += &format!(", {}", attribute.default_name());
                        inserted += &format!(", {value}");
                    }
                }
                let (mark, read) = (format!("'{mark}'"), read(&format!("'{mark}'")));
                format!(
                    "WITH r AS (SELECT {read} AS f FROM {table} WHERE {ID} = $1), \
                     i AS (INSERT INTO {table} ({names}) SELECT {inserted} WHERE NOT EXISTS (SELECT FROM r) AND {guard} \
                     ON CONFLICT ({ID}) DO NOTHING RETURNING ARRAY[{mark}] AS f) SELECT f FROM r UNION ALL SELECT f FROM i"
                )
            }
            Kind::Swap => format!(
                "WITH r AS MATERIALIZED (SELECT {} AS f, xmin AS version FROM {table} WHERE {here}), \
                 w AS (UPDATE {table} AS t SET {set} FROM r WHERE t.{ID} = $1 AND t.xmin = r.version RETURNING 1) SELECT f FROM r, w",
                read("NULL")
            ),
            Kind::Update => format!("UPDATE {table} SET {set} WHERE {here}"),
            Kind::Step => format!(
                "UPDATE {table} SET {steps} = {steps} || ARRAY[$2, $3] WHERE {here} AND {steps} IS NOT NULL"
            ),
            Kind::Delete => format!("DELETE FROM {table} WHERE {here}"),
            Kind::Read { event } => {
                let flag = format!("({} AND pg_is_in_recovery())::text", checked(last, mark));
                let read = columns::list(&flag, |it| event || columns::is_read(it));
                format!(
                    "SELECT CASE WHEN {ID} IS NULL THEN ARRAY[{flag}] ELSE {read} END FROM (SELECT) AS a LEFT JOIN {table} ON {ID} = $1"
                )
            }
        }
    }
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
