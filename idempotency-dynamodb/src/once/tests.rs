//! All orders of some writes, with the expressions that are sent: late requests, and the size of the item.

mod item;

use std::collections::HashMap;
use std::time::Duration;

use idempotency_core::future::BoxFuture;
use idempotency_core::time::EpochMillis;
use proptest::prelude::*;

use super::layout::{BEHIND, PROMISED};
use super::*;
use crate::item::Item;

/// A clock that stands still.
struct At(i64);

impl Clock for At {
    fn now(&self) -> EpochMillis {
        EpochMillis::new(self.0)
    }

    fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }
}

/// The length of a bucket, in seconds.
const BUCKET: i64 = 60;

/// Lifetime and skew are five buckets, and the skew is one.
fn once() -> Once {
    Once::new(plan(0.1, Duration::from_secs(240))).unwrap()
}

/// Returns the update that counts an event at this time, in milliseconds.
fn prepared(once: &Once, event: &str, milliseconds: i64) -> PreparedUpdate {
    let once = once.clone().clock(Arc::new(At(milliseconds)));
    let key = [("id", AttributeValue::S("c-1".to_owned()))];
    let update = once.update("usage", key, event).expression("ADD units :n");
    let update = update.value(":n", AttributeValue::N("1".to_owned()));
    update.build().unwrap()
}

/// The result of an update.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Sent {
    Applied,
    AlreadyApplied,
    ClockBehind,
}

/// Sends the update, and what must be sent instead, as `OnceUpdate::send` does.
fn send(item: &mut Item, update: &PreparedUpdate) -> Sent {
    let mut update = update.clone();
    loop {
        if item::apply(item, &update.update()) {
            return Sent::Applied;
        }
        match update.refusal(Some(item.clone()), false) {
            OnceRefusal::AlreadyApplied(_) => return Sent::AlreadyApplied,
            OnceRefusal::SendInstead(instead) => update = *instead,
            OnceRefusal::Error(OnceError::ClockBehind(_)) => return Sent::ClockBehind,
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
        assert_eq!(send(&mut item, first), Sent::Applied);
        self.check_from(&item, self.first, others)
    }

    fn check_from(&self, item: &Item, latest: i64, others: u32) -> usize {
        let mut checks = 0;
        for (bucket, forms) in &self.duplicates {
            for duplicate in forms {
                let mut item = item.clone();
                let applied = item::apply(&mut item, &duplicate.update());
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
                Sent::Applied => {
                    assert!(latest <= bucket + 1);
                    checks += self.check_from(&item, latest.max(*bucket), others - 1);
                }
                // Only a clock that is behind by more than a bucket is refused.
                Sent::ClockBehind => assert!(latest > bucket + 1),
                Sent::AlreadyApplied => {}
            }
        }
        checks
    }
}

/// Returns an item that was busy for many buckets until `last`.
fn idle_since(last: i64) -> Item {
    let once = once();
    let mut item = Item::new();
    for bucket in last - 20..=last {
        for event in 0..5 {
            let event = format!("old-{bucket}-{event}");
            let update = prepared(&once, &event, bucket * BUCKET * 1_000);
            assert_eq!(send(&mut item, &update), Sent::Applied);
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
    for idle in 1..=10 {
        let idle = idle_since(1_000 - idle);
        let checks = Updates::around(1_000, &idle).check(&idle, 1);
        assert!(checks > 100, "{checks}");
    }
}

#[test]
fn a_duplicate_at_the_end_of_the_lifetime_by_clocks_that_differ_finds_the_key_at_each_millisecond_of_a_bucket()
 {
    let once = once();
    let (lifetime, skew) = (240_000, 60_000);
    for begin in (0..BUCKET * 1_000).step_by(997).chain([BUCKET * 1_000 - 1]) {
        let begin = 1_000 * BUCKET * 1_000 + begin;
        let mut item = Item::new();
        assert_eq!(
            send(&mut item, &prepared(&once, "evt", begin)),
            Sent::Applied
        );
        for later in [-skew, 0, 1, lifetime - skew, lifetime, lifetime + skew] {
            let duplicate = prepared(&once, "evt", begin + later);
            assert_eq!(send(&mut item, &duplicate), Sent::AlreadyApplied, "{later}");
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
            assert_eq!(send(&mut item, &update), Sent::Applied);
        }
        let last = (begin / BUCKET + BEHIND) * BUCKET + BUCKET - 1;
        for (event, (at, keys)) in [(last, 201), (begin + within, 2)].into_iter().enumerate() {
            let update = prepared(&once, &format!("evt-{event}"), at * 1_000);
            assert_eq!(send(&mut item, &update), Sent::Applied);
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
            prop_assert_eq!(send(&mut item, &update), Sent::Applied);
            let (keys, bytes) = (item::keys(&item) as u64, item::size(&item) as u64);
            prop_assert!(keys <= estimate.keys(), "{keys} keys: {estimate}");
            prop_assert!(bytes <= estimate.item_bytes(), "{bytes} bytes: {estimate}");
        }
    }
}
