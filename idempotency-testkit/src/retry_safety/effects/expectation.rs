//! What a faultless run changes, and what differs between two faultless runs.

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use serde_json::Value;

use super::super::database::Items;
use super::Snapshot;
use super::compare::{Attribute, Difference, Kind, number};

/// What a faultless run does to the world.
pub(in super::super) struct Expectation {
    pub(in super::super) before: Snapshot,
    pub(in super::super) after: Snapshot,
    /// The world after a faultless run at another time, with other request ids.
    pub(in super::super) again: Snapshot,
    /// The items in the course of the first faultless run.
    pub(in super::super) earlier: Vec<Items>,
    /// The final responses of both runs, in the form in which they are compared.
    pub(in super::super) responses: (Option<Value>, Option<Value>),
}

impl Expectation {
    /// Returns true if a faultless run changes something that can be seen.
    pub(in super::super) fn sees_an_effect(&self) -> bool {
        self.before != self.after
    }

    /// Returns how the world differs from the world after a faultless run.
    pub(in super::super) fn compare(&self, actual: &Snapshot) -> Vec<Difference> {
        let mut differences = Vec::new();
        let (before, after) = (&self.before.counts, &self.after.counts);
        differences.extend(counts(before, after, &actual.counts));
        differences.extend(self.requests(actual));
        let tables: BTreeSet<_> = self.after.items.keys().chain(actual.items.keys()).collect();
        for table in tables {
            self.table(table, actual, &mut differences);
        }
        differences
    }

    fn requests(&self, actual: &Snapshot) -> Vec<Difference> {
        let by = if self.after.requests_by_path() == self.again.requests_by_path() {
            Snapshot::requests_by_path
        } else {
            Snapshot::requests_by_method
        };
        counts(&by(&self.before), &by(&self.after), &by(actual))
    }

    fn table(&self, table: &str, actual: &Snapshot, differences: &mut Vec<Difference>) {
        let none = BTreeMap::new();
        let of = |items: &'_ Items| items.get(table).cloned().unwrap_or_default();
        let (before, expected) = (of(&self.before.items), of(&self.after.items));
        let again = of(&self.again.items);
        let actual = actual.items.get(table).unwrap_or(&none);
        if let Some(kind) = number(size(&before), size(&expected), size(actual)) {
            let text = format!(
                "the table `{table}` has {} items instead of {}",
                actual.len(),
                expected.len()
            );
            differences.push(Difference::new(kind, text));
        }
        for (key, item) in &expected {
            let Some(actual) = actual.get(key) else {
                continue;
            };
            let earlier: Vec<_> = self
                .earlier
                .iter()
                .filter_map(|items| items.get(table)?.get(key))
                .collect();
            let names = names_of(item, actual);
            for name in names {
                let attribute = Attribute {
                    before: before.get(key).and_then(|item| item.get(name)),
                    expected: item.get(name),
                    again: again.get(key).map(|item| item.get(name)),
                    actual: actual.get(name),
                    earlier: earlier.iter().filter_map(|item| item.get(name)).collect(),
                };
                if let Some(kind) = attribute.compare() {
                    let text = format!(
                        "`{name}` of `{key}` in the table `{table}` is {} instead of {}",
                        text(attribute.actual),
                        text(attribute.expected)
                    );
                    differences.push(Difference::new(kind, text));
                }
            }
        }
    }
}

/// Compares counts by name.
fn counts(
    before: &BTreeMap<String, i64>,
    expected: &BTreeMap<String, i64>,
    actual: &BTreeMap<String, i64>,
) -> Vec<Difference> {
    let names: BTreeSet<_> = expected.keys().chain(actual.keys()).collect();
    let differences = names.into_iter().filter_map(|name| {
        let of = |counts: &BTreeMap<String, i64>| counts.get(name).copied().unwrap_or_default();
        let (before, expected, actual) = (of(before), of(expected), of(actual));
        let kind = count(before, expected, actual)?;
        let text = format!("`{name}` is {actual} instead of {expected}");
        Some(Difference::new(kind, text))
    });
    differences.collect()
}

/// As [`number`], without rounding.
fn count(before: i64, expected: i64, actual: i64) -> Option<Kind> {
    let (before, expected, actual) = (i128::from(before), i128::from(expected), i128::from(actual));
    let (should, did) = (expected - before, actual - before);
    if should == did {
        return None;
    }
    let further = should == 0 || (did.signum() == should.signum() && did.abs() > should.abs());
    Some(if further { Kind::Twice } else { Kind::Lost })
}

fn size(items: &BTreeMap<String, Value>) -> f64 {
    f64::from(u32::try_from(items.len()).unwrap_or(u32::MAX))
}

fn names_of<'a>(a: &'a Value, b: &'a Value) -> BTreeSet<&'a str> {
    let names = |item: &'a Value| item.as_object().into_iter().flat_map(|item| item.keys());
    names(a).chain(names(b)).map(String::as_str).collect()
}

/// Returns the text of an attribute in a report.
fn text(attribute: Option<&Value>) -> String {
    let value = attribute.and_then(|typed| typed.as_object()?.values().next());
    match value {
        None => "missing".to_owned(),
        Some(Value::String(text)) => format!("`{text}`"),
        Some(Value::Array(elements)) => format!("a list of {}", elements.len()),
        Some(other) => format!("`{other}`"),
    }
}
