//! The effects that can be seen in the world, and how those of a scenario differ from those of a faultless run.
//!
//! A value such as the number of a receipt differs between two faultless runs, and each run has it in its response and in an item.
//! If the response and the item have different values after a fault, they are of different runs.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::provider::ProviderRequest;

/// The items of all tables: table, key, attributes in DynamoDB's JSON.
pub(super) type Items = BTreeMap<String, BTreeMap<String, Value>>;

/// What can be seen of the world: counts, requests that a provider applied, and the items of the function's tables.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Snapshot {
    /// The counts of the user, by name.
    pub(super) counts: BTreeMap<String, i64>,
    /// The requests that the provider applied.
    pub(super) requests: Vec<ProviderRequest>,
    pub(super) items: Items,
}

impl Snapshot {
    /// Returns true if something that can be seen has this name: a count, a table, an attribute such as `accounts.attempts`, or a
    /// request such as `POST /attempts`.
    pub(super) fn has(&self, name: &str) -> bool {
        let tables = self.items.iter().flat_map(|(table, items)| {
            let attributes = items.values().filter_map(Value::as_object).flatten();
            let attributes = attributes.map(move |(attribute, _)| format!("{table}.{attribute}"));
            attributes.chain([table.clone()])
        });
        let requests = self.requests.iter().map(ProviderRequest::label);
        let mut names = tables.chain(requests).chain(self.counts.keys().cloned());
        names.any(|known| known == name)
    }

    /// Removes what has one of these names.
    pub(super) fn without(mut self, ignored: &[String]) -> Self {
        let is_kept = |name: &str| !ignored.iter().any(|ignored| ignored == name);
        self.counts.retain(|name, _| is_kept(name));
        self.requests.retain(|request| is_kept(&request.label()));
        self.items.retain(|table, _| is_kept(table));
        for (table, items) in &mut self.items {
            for item in items.values_mut().filter_map(Value::as_object_mut) {
                item.retain(|attribute, _| is_kept(&format!("{table}.{attribute}")));
            }
        }
        self
    }

    /// Counts the effects with these names as one: counts, requests, and the items of tables.
    pub(super) fn with_one_of(mut self, names: &Vec<String>) -> Self {
        let mut sum: i64 = 0;
        for name in names {
            let requests = self.requests.iter();
            let requests = requests.filter(|request| request.label() == *name).count();
            let items = self.items.get(name).map_or(0, BTreeMap::len);
            let count = self.counts.get(name).copied().unwrap_or_default();
            sum = sum
                .saturating_add(count)
                .saturating_add(whole(requests + items));
        }
        self = self.without(names);
        self.counts.insert(names.join("` or `"), sum);
        self
    }

    /// Returns the number of requests that were applied, by method and path.
    pub(super) fn requests_by_path(&self) -> BTreeMap<String, i64> {
        by_name(self.requests.iter().map(ProviderRequest::label))
    }

    /// Returns the number of requests that were applied, by method.
    pub(super) fn requests_by_method(&self) -> BTreeMap<String, i64> {
        by_name(self.requests.iter().map(|request| request.method.clone()))
    }
}

fn by_name(names: impl Iterator<Item = String>) -> BTreeMap<String, i64> {
    let mut counts = BTreeMap::new();
    for name in names {
        *counts.entry(name).or_default() += 1;
    }
    counts
}

/// What a faultless run does to the world.
pub(super) struct Expectation {
    pub(super) before: Snapshot,
    pub(super) after: Snapshot,
    /// The world after a faultless run at another time, with other request ids.
    pub(super) again: Snapshot,
    /// The items in the course of the first faultless run.
    pub(super) earlier: Vec<Items>,
    /// The final responses of both runs, in the form in which they are compared.
    pub(super) responses: (Option<Value>, Option<Value>),
}

impl Expectation {
    /// Returns true if a faultless run changes something that can be seen.
    pub(super) fn sees_an_effect(&self) -> bool {
        self.before != self.after
    }

    /// Returns the attributes that differ between two faultless runs, such as `accounts.receipt`. They are not compared.
    pub(super) fn not_compared(&self) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        for (table, items) in &self.after.items {
            let again = self.again.items.get(table);
            for (key, item) in items {
                let again = again.and_then(|items| items.get(key));
                let attributes = item.as_object().into_iter().flatten();
                let differ = attributes.filter(|(name, value)| {
                    again.is_some_and(|again| again.get(*name) != Some(*value))
                });
                names.extend(differ.map(|(name, _)| format!("{table}.{name}")));
            }
        }
        names
    }

    /// Returns how the world differs from the world after a faultless run.
    pub(super) fn compare(&self, actual: &Snapshot) -> Vec<Difference> {
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

    /// Returns what the event did not do after another event, although it does it alone. `before` and `after` are the world before
    /// and after it.
    pub(super) fn missing(&self, before: &Snapshot, after: &Snapshot) -> Vec<String> {
        let mut missing = Vec::new();
        let by = self.requests_by();
        let of = |world: &Snapshot| by(world).into_iter().chain(world.counts.clone());
        let [alone_before, alone, before_by, after_by] = [&self.before, &self.after, before, after]
            .map(|world| of(world).collect::<BTreeMap<_, _>>());
        for (name, expected) in alone {
            let of =
                |counts: &BTreeMap<String, i64>| counts.get(&name).copied().unwrap_or_default();
            let should = expected.saturating_sub(of(&alone_before));
            let (was, is) = (of(&before_by), of(&after_by));
            if let Some(Kind::Lost) = count(was, was.saturating_add(should), is) {
                let expected = was.saturating_add(should);
                missing.push(format!("`{name}` is {is} instead of {expected}"));
            }
        }
        for (table, items) in &self.after.items {
            for (key, item) in items {
                let of = |world: &Snapshot| world.items.get(table)?.get(key).cloned();
                let worlds = [&self.before, &self.again, before, after].map(of);
                for (name, expected) in item.as_object().into_iter().flatten() {
                    let [alone, again, was, is] =
                        worlds.each_ref().map(|item| item.as_ref()?.get(name));
                    // What a run alone does not change, or what differs between two of them.
                    if alone == Some(expected) || again != Some(expected) || is == Some(expected) {
                        continue;
                    }
                    if was == is {
                        let is = text(is);
                        missing.push(format!(
                            "`{name}` of `{key}` in the table `{table}` is still {is}"
                        ));
                    }
                }
            }
        }
        missing
    }

    fn requests_by(&self) -> fn(&Snapshot) -> BTreeMap<String, i64> {
        if self.after.requests_by_path() == self.again.requests_by_path() {
            Snapshot::requests_by_path
        } else {
            Snapshot::requests_by_method
        }
    }

    fn requests(&self, actual: &Snapshot) -> Vec<Difference> {
        let by = self.requests_by();
        counts(&by(&self.before), &by(&self.after), &by(actual))
    }

    fn table(&self, table: &str, actual: &Snapshot, differences: &mut Vec<Difference>) {
        let none = BTreeMap::new();
        let of = |items: &'_ Items| items.get(table).cloned().unwrap_or_default();
        let (before, expected) = (of(&self.before.items), of(&self.after.items));
        let again = of(&self.again.items);
        let actual = actual.items.get(table).unwrap_or(&none);
        let sizes = [&before, &expected, actual].map(|items| whole(items.len()));
        if let Some(kind) = count(sizes[0], sizes[1], sizes[2]) {
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

/// Compares the change of a count as [`number`] does, without rounding.
fn count(before: i64, expected: i64, actual: i64) -> Option<Kind> {
    let (before, expected, actual) = (i128::from(before), i128::from(expected), i128::from(actual));
    let (should, did) = (expected - before, actual - before);
    if should == did {
        return None;
    }
    let further = should == 0 || (did.signum() == should.signum() && did.abs() > should.abs());
    Some(if further { Kind::Twice } else { Kind::Lost })
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

/// A value that a response and an item share.
#[derive(Clone, Debug, PartialEq, Eq)]
struct InBoth {
    table: String,
    key: String,
    attribute: String,
    /// Its place in the response, a JSON pointer.
    pointer: String,
}

impl Expectation {
    /// Returns the first value that the response and an item share in a faultless run and do not share here.
    pub(super) fn disagreement(&self, actual: &Snapshot, response: &Value) -> Option<String> {
        self.shared().into_iter().find_map(|shared| {
            let item = actual.items.get(&shared.table)?.get(&shared.key)?;
            let stored = scalar(item.get(&shared.attribute)?)?;
            let responded = leaf(response.pointer(&shared.pointer)?)?;
            (stored != responded).then(|| {
                format!(
                    "the response has `{responded}` at `{}`, but `{}` of `{}` in the table `{}` is `{stored}`",
                    shared.pointer, shared.attribute, shared.key, shared.table
                )
            })
        })
    }

    /// Returns the place of a value in a response that two faultless runs do not have there, although both have the same, and that
    /// is in the response to another event.
    pub(super) fn leak(&self, response: &Value, to_another: &Value) -> Option<String> {
        let (Some(first), Some(second)) = &self.responses else {
            return None;
        };
        let mut leaves = Vec::new();
        collect(response, String::new(), &mut leaves);
        let leaks = |(pointer, text): &(String, String)| {
            let of = |response: &Value| response.pointer(pointer).and_then(leaf);
            let alone = of(first);
            alone.is_some()
                && alone == of(second)
                && alone.as_ref() != Some(text)
                && of(to_another).as_ref() == Some(text)
        };
        leaves.into_iter().find(leaks).map(|(pointer, _)| pointer)
    }

    /// Returns the values that the response and the items share in each faultless run, and that differ between the two runs.
    fn shared(&self) -> Vec<InBoth> {
        let mut found = Vec::new();
        let (Some(first), Some(second)) = &self.responses else {
            return found;
        };
        let mut leaves = Vec::new();
        collect(first, String::new(), &mut leaves);
        for (table, items) in &self.after.items {
            for (key, item) in items {
                let again = self.again.items.get(table).and_then(|items| items.get(key));
                let names = item.as_object().into_iter().flat_map(|item| item.keys());
                for name in names {
                    let of = |item: Option<&Value>| scalar(item?.get(name)?);
                    let (Some(one), Some(two)) = (of(Some(item)), of(again)) else {
                        continue;
                    };
                    if one == two {
                        continue;
                    }
                    let is_same = |(pointer, text): &&(String, String)| {
                        let other = second.pointer(pointer).and_then(leaf);
                        *text == one && other.as_ref() == Some(&two)
                    };
                    found.extend(leaves.iter().filter(is_same).map(|(pointer, _)| InBoth {
                        table: table.clone(),
                        key: key.clone(),
                        attribute: name.clone(),
                        pointer: pointer.clone(),
                    }));
                }
            }
        }
        found
    }
}

/// Returns the text of a string or number attribute.
fn scalar(typed: &Value) -> Option<String> {
    let value = typed.get("S").or_else(|| typed.get("N"))?;
    value.as_str().map(str::to_owned)
}

/// Returns the text of a string or number in a response.
fn leaf(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

fn collect(value: &Value, pointer: String, leaves: &mut Vec<(String, String)>) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                let name = name.replace('~', "~0").replace('/', "~1");
                collect(member, format!("{pointer}/{name}"), leaves);
            }
        }
        Value::Array(elements) => {
            for (index, element) in elements.iter().enumerate() {
                collect(element, format!("{pointer}/{index}"), leaves);
            }
        }
        other => leaves.extend(leaf(other).map(|text| (pointer, text))),
    }
}

/// How an effect differs from that of a faultless run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// It happened less often.
    Lost,
    /// It happened more often.
    Twice,
}

/// An effect that differs from that of a faultless run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Difference {
    pub(super) kind: Kind,
    /// What happened, as a sentence.
    pub(super) text: String,
}

impl Difference {
    pub(super) fn new(kind: Kind, text: String) -> Self {
        Self { kind, text }
    }
}

/// Compares the change of a number with the change in a faultless run.
pub(super) fn number(before: f64, expected: f64, actual: f64) -> Option<Kind> {
    let (should, did) = (expected - before, actual - before);
    if (did - should).abs() < f64::EPSILON * expected.abs().max(actual.abs()).max(1.0) {
        return None;
    }
    let further = should == 0.0 || did / should > 1.0;
    Some(if further { Kind::Twice } else { Kind::Lost })
}

/// Above this, two numbers that differ by less than 1 % are taken for points in time.
const EPOCH_SECONDS: f64 = 1_000_000_000.0;

/// An attribute, or a part of one, in a faultless run and in a scenario.
pub(super) struct Attribute<'a> {
    pub(super) before: Option<&'a Value>,
    pub(super) expected: Option<&'a Value>,
    /// What the second faultless run has here, if it has the item.
    pub(super) again: Option<Option<&'a Value>>,
    pub(super) actual: Option<&'a Value>,
    /// The values that were here in the course of the first faultless run.
    pub(super) earlier: Vec<&'a Value>,
}

impl Attribute<'_> {
    /// Returns how the attribute differs. An attribute that differs between faultless runs, such as a time, is not compared.
    pub(super) fn compare(&self) -> Option<Kind> {
        if self.actual == self.expected || self.again.is_some_and(|again| again != self.expected) {
            return None;
        }
        let (Some(expected), Some(actual)) = (self.expected, self.actual) else {
            // Something new that no faultless run has can be a note of the retry.
            let known = self
                .actual
                .is_some_and(|actual| self.earlier.contains(&actual));
            return (self.actual.is_none() || known).then_some(Kind::Lost);
        };
        if let (Some(expected), Some(actual)) = (as_number(expected), as_number(actual)) {
            let before = self.before.and_then(as_number).unwrap_or_default();
            let is_time = expected > EPOCH_SECONDS
                && actual > EPOCH_SECONDS
                && (actual / expected - 1.0).abs() < 0.01;
            return number(before, expected, actual).filter(|_| !is_time);
        }
        if let (Some(expected), Some(actual)) = (length(expected), length(actual))
            && expected != actual
        {
            let before = self.before.and_then(length).unwrap_or_default();
            return count(before, expected, actual);
        }
        if let (Some(expected), Some(actual)) = (expected.get("M"), actual.get("M")) {
            return self.members(expected, actual);
        }
        self.earlier.contains(&actual).then_some(Kind::Lost)
    }

    fn members(&self, expected: &Value, actual: &Value) -> Option<Kind> {
        let names = expected.as_object()?.keys();
        let names = names.chain(actual.as_object()?.keys());
        let kinds = names.filter_map(|name| {
            let inside = |value: &'_ Value| {
                value
                    .get("M")
                    .and_then(|members| members.get(name))
                    .cloned()
            };
            let before = self.before.and_then(inside);
            let again = self.again.map(|again| again.and_then(inside));
            let earlier: Vec<_> = self
                .earlier
                .iter()
                .filter_map(|value| inside(value))
                .collect();
            Attribute {
                before: before.as_ref(),
                expected: expected.get(name),
                again: again.as_ref().map(Option::as_ref),
                actual: actual.get(name),
                earlier: earlier.iter().collect(),
            }
            .compare()
        });
        kinds.max()
    }
}

fn as_number(value: &Value) -> Option<f64> {
    value.get("N")?.as_str()?.parse().ok()
}

/// Returns the number of elements of a list or set.
fn length(value: &Value) -> Option<i64> {
    let elements = ["L", "SS", "NS", "BS"]
        .iter()
        .find_map(|kind| value.get(kind));
    Some(whole(elements?.as_array()?.len()))
}

fn whole(length: usize) -> i64 {
    i64::try_from(length).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Returns a world with one item `a-1` in the table `accounts`.
    fn world(item: Value) -> Snapshot {
        let items = BTreeMap::from([("a-1".to_owned(), item)]);
        Snapshot {
            items: BTreeMap::from([("accounts".to_owned(), items)]),
            ..Snapshot::default()
        }
    }

    /// Returns the expectation of faultless runs that make `after` and `again` of `before`.
    fn faultless(before: Snapshot, after: Snapshot, again: Snapshot) -> Expectation {
        Expectation {
            before,
            after,
            again,
            earlier: Vec::new(),
            responses: (None, None),
        }
    }

    /// Returns how the item differs if a faultless run makes `expected` of `before`.
    fn kinds(before: Value, expected: Value, actual: Value) -> Vec<Kind> {
        let after = world(expected);
        let mut expectation = faultless(world(before), after.clone(), after);
        expectation.earlier = vec![expectation.before.items.clone()];
        let differences = expectation.compare(&world(actual)).into_iter();
        differences.map(|difference| difference.kind).collect()
    }

    fn balance(amount: i64) -> Value {
        json!({ "balance": { "N": amount.to_string() } })
    }

    #[test]
    fn a_number_that_changed_further_is_twice_and_one_that_changed_less_is_lost() {
        assert_eq!(kinds(balance(100), balance(90), balance(90)), []);
        assert_eq!(kinds(balance(100), balance(90), balance(80)), [Kind::Twice]);
        assert_eq!(kinds(balance(100), balance(90), balance(100)), [Kind::Lost]);
        assert_eq!(
            kinds(balance(0), balance(1_000), balance(1_005)),
            [Kind::Twice]
        );
        assert_eq!(kinds(balance(5), balance(5), balance(6)), [Kind::Twice]);
    }

    #[test]
    fn a_state_that_a_faultless_run_leaves_again_is_a_lost_update() {
        let status = |status: &str| json!({ "status": { "S": status } });
        assert_eq!(
            kinds(status("new"), status("paid"), status("new")),
            [Kind::Lost]
        );
        assert_eq!(
            kinds(status("new"), status("paid"), json!({})),
            [Kind::Lost]
        );
        // No faultless run has this text: an id or a time of the run that wrote it.
        assert_eq!(kinds(status("new"), status("id-1"), status("id-2")), []);
    }

    #[test]
    fn what_differs_between_faultless_runs_is_not_compared() {
        let at = |time: &str| json!({ "at": { "N": time }, "id": { "S": time } });
        let expectation = faultless(world(json!({})), world(at("1")), world(at("2")));
        assert_eq!(expectation.compare(&world(at("3"))), []);
        // Faultless runs in the same second have the same time.
        assert_eq!(kinds(json!({}), at("1800000000"), at("1800000031")), []);
    }

    #[test]
    fn a_longer_list_is_twice_and_members_of_maps_are_compared() {
        let list = |length: usize| json!({ "lines": { "L": vec![json!({ "N": "1" }); length] } });
        assert_eq!(kinds(list(0), list(1), list(2)), [Kind::Twice]);
        assert_eq!(kinds(list(0), list(1), list(0)), [Kind::Lost]);
        let map = |amount: i64| json!({ "totals": { "M": balance(amount) } });
        assert_eq!(kinds(map(0), map(1), map(2)), [Kind::Twice]);
    }

    #[test]
    fn items_and_counts_are_compared_with_what_was_there_before() {
        let empty = world(json!({}));
        let mut expectation = faultless(Snapshot::default(), empty.clone(), empty);
        expectation.before.counts.insert("charges".to_owned(), 2);
        expectation.after.counts.insert("charges".to_owned(), 3);
        let with_charges = |charges: i64| {
            let mut world = world(json!({}));
            world.counts.insert("charges".to_owned(), charges);
            world
        };
        assert_eq!(expectation.compare(&with_charges(3)), []);
        let twice = &expectation.compare(&with_charges(4))[0];
        assert_eq!(
            (twice.kind, twice.text.as_str()),
            (Kind::Twice, "`charges` is 4 instead of 3")
        );
        assert_eq!(expectation.compare(&with_charges(2))[0].kind, Kind::Lost);

        let mut more = with_charges(3);
        let accounts = more.items.get_mut("accounts").unwrap();
        accounts.insert("a-2".to_owned(), json!({}));
        assert_eq!(expectation.compare(&more)[0].kind, Kind::Twice);
        more.items.clear();
        assert_eq!(expectation.compare(&more)[0].kind, Kind::Lost);
    }

    #[test]
    fn a_value_of_the_run_that_the_response_and_an_item_share_must_agree() {
        let item =
            |receipt: &str| world(json!({ "receipt": { "S": receipt }, "by": { "S": "shop" } }));
        let response = |receipt: &str| json!({ "done": { "receipt": receipt, "by": "shop" } });
        let mut expectation = faultless(world(json!({})), item("r-1"), item("r-2"));
        expectation.responses = (Some(response("r-1")), Some(response("r-2")));
        assert_eq!(
            expectation.disagreement(&item("r-3"), &response("r-3")),
            None
        );
        let text = "the response has `r-4` at `/done/receipt`, but `receipt` of `a-1` in the table `accounts` is `r-3`";
        let found = expectation.disagreement(&item("r-3"), &response("r-4"));
        assert_eq!(found.as_deref(), Some(text));
        // The same in each faultless run: not a value of the run.
        let other = world(json!({ "receipt": { "S": "r-3" }, "by": { "S": "bank" } }));
        assert_eq!(expectation.disagreement(&other, &response("r-3")), None);
    }

    #[test]
    fn what_an_event_does_alone_must_happen_after_another_event_too() {
        let item = |by: &str, units: i64, at: &str| {
            world(
                json!({ "by": { "S": by }, "units": { "N": units.to_string() }, "at": { "S": at } }),
            )
        };
        let with = |mut world: Snapshot, charges: i64| {
            world.counts.insert("charges".to_owned(), charges);
            world
        };
        let after = with(item("u-2", 5, "1"), 1);
        let again = with(item("u-2", 5, "2"), 1);
        let alone = faultless(with(Snapshot::default(), 0), after, again);
        assert_eq!(
            alone.not_compared().into_iter().collect::<Vec<_>>(),
            ["accounts.at"]
        );
        let before = with(item("u-1", 5, "1"), 1);
        let missing = |after: Snapshot| alone.missing(&before, &after);
        // A number may be set, or raised by any amount: a fee can be a part of what is there.
        assert!(missing(with(item("u-2", 5, "1"), 2)).is_empty());
        assert!(missing(with(item("u-2", 8, "1"), 2)).is_empty());
        assert_eq!(
            missing(with(item("u-2", 5, "1"), 1)),
            ["`charges` is 1 instead of 2"]
        );
        let kept = "`by` of `a-1` in the table `accounts` is still `u-1`";
        assert_eq!(missing(with(item("u-1", 5, "1"), 2)), [kept]);
    }

    #[test]
    fn a_value_of_the_response_to_another_event_is_a_leak() {
        let response = |user: &str, number: u64| json!({ "user": user, "number": number });
        let mut alone = faultless(
            Snapshot::default(),
            Snapshot::default(),
            Snapshot::default(),
        );
        alone.responses = (Some(response("u-2", 1)), Some(response("u-2", 1)));
        let other = response("u-1", 1);
        assert_eq!(
            alone.leak(&response("u-1", 2), &other).as_deref(),
            Some("/user")
        );
        assert_eq!(alone.leak(&response("u-2", 2), &other), None);
        // It differs in each run.
        alone.responses.1 = Some(response("u-3", 1));
        assert_eq!(alone.leak(&response("u-1", 2), &other), None);
    }

    #[test]
    fn effects_that_are_one_are_counted_together() {
        let mut seen = world(json!({}));
        seen.counts.insert("mails".to_owned(), 2);
        let names = ["mails", "accounts", "POST /mails"]
            .map(str::to_owned)
            .to_vec();
        let seen = seen.with_one_of(&names);
        let sum = ("mails` or `accounts` or `POST /mails".to_owned(), 3);
        assert_eq!(seen.counts, BTreeMap::from([sum]));
        assert!(seen.items.is_empty());
    }

    #[test]
    fn an_ignored_effect_is_not_compared() {
        let mut seen = world(json!({ "balance": { "N": "1" }, "attempts": { "N": "2" } }));
        seen.counts.insert("mails".to_owned(), 1);
        for name in ["mails", "accounts", "accounts.attempts"] {
            assert!(seen.has(name), "{name}");
            let rest = seen.clone().without(&[name.to_owned()]);
            assert!(!rest.has(name), "{name}");
            assert_ne!(rest, seen);
        }
        assert!(!seen.has("accounts.attempt"));
        assert_eq!(seen.clone().without(&["accounts.attempt".to_owned()]), seen);
    }
}
