//! The expressions of `once`, applied to an item in memory: late requests after all orders of other writes, and the item's size.

use std::collections::HashMap;
use std::time::Duration;

use idempotency_testkit::ManualClock;
use proptest::prelude::*;

use super::layout::{BEHIND, PROMISED};
use super::*;
use crate::item::Item;

/// The length of a bucket, in seconds.
const BUCKET: i64 = 60;

/// Lifetime and skew are five buckets, and the skew is one.
fn once() -> Once {
    Once::new(plan(0.1, Duration::from_secs(240))).unwrap()
}

/// Returns the update that counts an event at this time, in milliseconds.
fn prepared(once: &Once, event: &str, milliseconds: i64) -> PreparedUpdate {
    let once = once.clone().clock(Arc::new(ManualClock::at(milliseconds)));
    let key = [("id", AttributeValue::S("c-1".to_owned()))];
    let update = once.update("usage", key, event).expression("ADD units :n");
    let update = update.value(":n", AttributeValue::N("1".to_owned()));
    update.build().unwrap()
}

/// The result of an update.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Applied,
    AlreadyApplied,
    ClockBehind,
}

/// Sends the update, and what must be sent instead, as `OnceUpdate::send` does.
fn send(item: &mut Item, update: &PreparedUpdate) -> End {
    let mut update = update.clone();
    loop {
        if item::apply(item, &update.update) {
            return End::Applied;
        }
        match update.refusal(Some(item.clone()), false) {
            OnceRefusal::AlreadyApplied(_) => return End::AlreadyApplied,
            OnceRefusal::SendInstead(instead) => update = *instead,
            OnceRefusal::Error(OnceError::ClockBehind { .. }) => return End::ClockBehind,
            OnceRefusal::Error(error) => panic!("{error}"),
        }
    }
}

/// The updates of two events in each bucket of a piece of time.
struct Updates {
    first: i64,
    duplicates: HashMap<i64, Vec<PreparedUpdate>>,
    others: HashMap<i64, PreparedUpdate>,
}

impl Updates {
    /// Returns the updates of the buckets around `first`. A duplicate can also have seen the item as it was in the beginning, and
    /// send what its first refusal said.
    fn around(first: i64, beginning: &Item) -> Self {
        let once = once();
        let at = |event: &str, bucket: i64| prepared(&once, event, bucket * BUCKET * 1_000);
        let buckets = first - 2..=first + BEHIND + 4;
        let duplicates = buckets.clone().map(|bucket| {
            let duplicate = at("evt", bucket);
            let mut forms = vec![duplicate.clone()];
            if let OnceRefusal::SendInstead(instead) =
                duplicate.refusal(Some(beginning.clone()), false)
            {
                forms.push(*instead);
            }
            (bucket, forms)
        });
        Self {
            first,
            duplicates: duplicates.collect(),
            others: buckets
                .map(|bucket| (bucket, at(&format!("other-{bucket}"), bucket)))
                .collect(),
        }
    }

    /// Applies the event in the bucket `first`, then other writes in all orders of their buckets, and checks after each of them
    /// that no duplicate that was built within the lifetime is applied. Returns the number of checks.
    fn check(&self, beginning: &Item, others: u32) -> usize {
        let mut item = beginning.clone();
        let first = &self.duplicates[&self.first][0];
        assert_eq!(send(&mut item, first), End::Applied);
        self.check_from(&item, self.first, others)
    }

    fn check_from(&self, item: &Item, latest: i64, others: u32) -> usize {
        let mut checks = 0;
        for (bucket, forms) in &self.duplicates {
            for duplicate in forms {
                let mut item = item.clone();
                let applied = item::apply(&mut item, &duplicate.update);
                if applied {
                    let after = bucket - self.first;
                    assert!(after > PROMISED, "{after} buckets later, after {latest}");
                }
                checks += 1;
            }
        }
        if others == 0 {
            return checks;
        }
        for (bucket, other) in &self.others {
            let mut item = item.clone();
            match send(&mut item, other) {
                End::Applied => {
                    assert!(latest <= bucket + 1);
                    checks += self.check_from(&item, latest.max(*bucket), others - 1);
                }
                // Only a clock that is behind by more than a bucket is refused.
                End::ClockBehind => assert!(latest > bucket + 1),
                End::AlreadyApplied => {}
            }
        }
        checks
    }
}

/// Returns an item that was busy for many buckets until `last`.
fn busy_until(last: i64) -> Item {
    let once = once();
    let mut item = Item::new();
    for bucket in last - 20..=last {
        for event in 0..5 {
            let event = format!("old-{bucket}-{event}");
            let update = prepared(&once, &event, bucket * BUCKET * 1_000);
            assert_eq!(send(&mut item, &update), End::Applied);
        }
    }
    item
}

#[test]
fn no_late_request_of_a_duplicate_is_applied_after_any_order_of_other_writes() {
    // Each slot can be the one of the key.
    for first in 1_000..1_009 {
        let new = Item::new();
        Updates::around(first, &new).check(&new, 1);
    }
    let new = Item::new();
    let checks = Updates::around(1_000, &new).check(&new, 3);
    assert!(checks > 5_000, "{checks}");
}

#[test]
fn no_late_request_of_a_duplicate_is_applied_to_an_item_that_was_idle() {
    for buckets in 1..=10 {
        let item = busy_until(1_000 - buckets);
        let checks = Updates::around(1_000, &item).check(&item, 1);
        assert!(checks > 100, "{checks}");
    }
}

#[test]
fn a_duplicate_within_the_lifetime_finds_the_key_although_clocks_differ() {
    let once = once();
    let (lifetime, skew) = (240_000, 60_000);
    for begin in (0..BUCKET * 1_000).step_by(997).chain([BUCKET * 1_000 - 1]) {
        let begin = 1_000 * BUCKET * 1_000 + begin;
        let mut item = Item::new();
        assert_eq!(
            send(&mut item, &prepared(&once, "evt", begin)),
            End::Applied
        );
        for later in [-skew, 0, 1, lifetime - skew, lifetime, lifetime + skew] {
            let duplicate = prepared(&once, "evt", begin + later);
            assert_eq!(send(&mut item, &duplicate), End::AlreadyApplied, "{later}");
        }
    }
}

#[test]
fn a_burst_leaves_the_item_as_early_as_the_error_of_a_full_item_says() {
    let once = once();
    let within = i64::try_from(once.layout.removed_within().as_secs()).unwrap();
    for begin in [0, 1, BUCKET - 1].map(|second| 1_000 * BUCKET + second) {
        let mut item = Item::new();
        for event in 0..200 {
            let update = prepared(&once, &format!("burst-{event}"), begin * 1_000);
            assert_eq!(send(&mut item, &update), End::Applied);
        }
        let last = (begin / BUCKET + BEHIND) * BUCKET + BUCKET - 1;
        for (event, (at, keys)) in [(last, 201), (begin + within, 2)].into_iter().enumerate() {
            let update = prepared(&once, &format!("evt-{event}"), at * 1_000);
            assert_eq!(send(&mut item, &update), End::Applied);
            assert_eq!(item::keys(&item), keys, "{at}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Pauses let old keys stay in slots that are used again.
    #[test]
    fn no_item_is_larger_than_its_plan(
        seconds in prop_oneof![Just(600_u32), Just(60), Just(7)],
        pauses in proptest::collection::vec((0..4_u8, 1..50_u32, 0..=60_i64), 150),
    ) {
        // The name, up to three digits.
        let own = "units".len() as u64 + 3;
        let plan = plan(1.0 / f64::from(seconds), Duration::from_secs(240)).own_bytes(own);
        let estimate = plan.estimate().unwrap();
        let once = Once::new(plan).unwrap();
        let mut item = Item::new();
        let mut now = 1_000_000_000_i64;
        for (event, (pause, spacings, ahead)) in pauses.into_iter().enumerate() {
            let spacings = if pause == 0 { spacings } else { 1 };
            now += i64::from(seconds * spacings);
            let update = prepared(&once, &format!("evt-{event}"), (now + ahead) * 1_000);
            prop_assert_eq!(send(&mut item, &update), End::Applied);
            let (keys, bytes) = (item::keys(&item) as u64, item::size(&item) as u64);
            prop_assert!(keys <= estimate.keys(), "{keys} keys: {estimate}");
            prop_assert!(bytes <= estimate.item_bytes(), "{bytes} bytes: {estimate}");
        }
    }
}

/// An item in memory that applies updates by their expressions: as much of DynamoDB's language as `once` writes.
mod item {
    use aws_sdk_dynamodb::types::{AttributeValue, Update};

    use crate::item::Item;

    /// Applies an update. Returns false, and changes nothing, if its condition does not hold.
    pub(super) fn apply(item: &mut Item, update: &Update) -> bool {
        let holds = holds(item, update, update.condition_expression().unwrap());
        if holds {
            change(item, update);
        }
        holds
    }

    /// Returns the size of an item in bytes, as the planner counts it.
    pub(super) fn size(item: &Item) -> usize {
        let attributes = item.iter().map(|(name, value)| {
            name.len()
                + match value {
                    AttributeValue::S(text) => text.len(),
                    AttributeValue::N(digits) => digits.len().div_ceil(2) + 1,
                    AttributeValue::Bs(set) => {
                        3 + set.iter().map(|key| key.as_ref().len() + 1).sum::<usize>()
                    }
                    other => panic!("no attribute has this type: {other:?}"),
                }
        });
        attributes.sum()
    }

    /// Returns the number of keys in an item.
    pub(super) fn keys(item: &Item) -> usize {
        let sets = item.values().filter_map(|value| value.as_bs().ok());
        sets.map(Vec::len).sum()
    }

    fn name<'a>(update: &'a Update, token: &'a str) -> &'a str {
        match token.starts_with('#') {
            true => &update.expression_attribute_names().unwrap()[token],
            false => token,
        }
    }

    fn value<'a>(update: &'a Update, token: &str) -> &'a AttributeValue {
        &update.expression_attribute_values().unwrap()[token]
    }

    fn number(value: &AttributeValue) -> i64 {
        value.as_n().unwrap().parse().unwrap()
    }

    /// Splits a condition at a separator outside of its parentheses.
    fn split<'a>(text: &'a str, separator: &str) -> Vec<&'a str> {
        let (mut parts, mut from, mut depth) = (Vec::new(), 0, 0);
        for (at, character) in text.char_indices() {
            match character {
                '(' => depth += 1,
                ')' => depth -= 1,
                _ if depth == 0 && text[at..].starts_with(separator) => {
                    parts.push(&text[from..at]);
                    from = at + separator.len();
                }
                _ => {}
            }
        }
        parts.push(&text[from..]);
        parts
    }

    /// Returns what is between the parentheses behind a word, if the whole text has this form.
    fn inside<'a>(text: &'a str, word: &str) -> Option<&'a str> {
        text.strip_prefix(word)?
            .strip_prefix('(')?
            .strip_suffix(')')
    }

    fn holds(item: &Item, update: &Update, condition: &str) -> bool {
        let holds = |condition: &str| holds(item, update, condition);
        let attribute = |token| item.get(name(update, token));
        let set = |token| attribute(token).map(|set| set.as_bs().unwrap());
        let (any, all) = (split(condition, " OR "), split(condition, " AND "));
        if any.len() > 1 {
            return any.into_iter().any(holds);
        }
        if all.len() > 1 {
            return all.into_iter().all(holds);
        }
        if let Some(not) = condition.strip_prefix("NOT ") {
            return !holds(not);
        }
        if let Some(group) = inside(condition, "") {
            return holds(group);
        }
        if let Some(absent) = inside(condition, "attribute_not_exists") {
            return attribute(absent).is_none();
        }
        if let Some(arguments) = inside(condition, "contains") {
            let (keys, key) = arguments.split_once(", ").unwrap();
            return set(keys).is_some_and(|set| set.contains(value(update, key).as_b().unwrap()));
        }
        let [left, operator, right] = split(condition, " ")[..] else {
            panic!("no comparison: {condition}");
        };
        let left = match inside(left, "size") {
            Some(keys) => set(keys).map(|set| AttributeValue::N(set.len().to_string())),
            None => attribute(left).cloned(),
        };
        let order = match (left, value(update, right)) {
            (None, _) => return false,
            (Some(AttributeValue::S(left)), AttributeValue::S(right)) => left.cmp(right),
            (Some(left), right) => number(&left).cmp(&number(right)),
        };
        match operator {
            "=" => order.is_eq(),
            "<" => order.is_lt(),
            ">" => order.is_gt(),
            ">=" => order.is_ge(),
            other => panic!("no operator: {other}"),
        }
    }

    /// Performs the actions of the update expression. No two of them have the same attribute, so their order does not matter.
    fn change(item: &mut Item, update: &Update) {
        let actions = update.update_expression().replace(',', "");
        let mut tokens = actions.split(' ');
        let mut clause = "";
        while let Some(token) = tokens.next() {
            if ["SET", "REMOVE", "ADD"].contains(&token) {
                clause = token;
                continue;
            }
            let name = name(update, token).to_owned();
            match clause {
                "SET" => {
                    assert_eq!(tokens.next(), Some("="));
                    let value = value(update, tokens.next().unwrap());
                    item.insert(name, value.clone());
                }
                "REMOVE" => {
                    item.remove(&name);
                }
                _ => add(item, name, value(update, tokens.next().unwrap())),
            }
        }
    }

    fn add(item: &mut Item, name: String, value: &AttributeValue) {
        match (item.get_mut(&name), value) {
            (None, _) => {
                item.insert(name, value.clone());
            }
            (Some(AttributeValue::Bs(set)), AttributeValue::Bs(keys)) => set.extend(keys.clone()),
            (Some(stored), value) => {
                *stored = AttributeValue::N((number(stored) + number(value)).to_string());
            }
        }
    }
}
