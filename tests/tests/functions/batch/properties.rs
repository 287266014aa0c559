//! Random batches against a simple reference of the partial batch response.
//!
//! The handler's result depends on the order alone, so the expected response does not depend on the schedule.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use idempotency_lambda::batch::Batch;
use proptest::prelude::*;

use super::shop::{Does, MINUTE, Shop, Source};

/// One record of a batch.
#[derive(Clone, Debug)]
struct Record {
    group: u8,
    /// The number of its order, or `None` for a body that cannot be read.
    order: Option<usize>,
}

#[derive(Clone, Debug)]
struct Case {
    source: Source,
    records: Vec<Record>,
    /// What the handler does with each order, as [`Shop::deliver_text`] reads it: `!` fails and `*` panics.
    does: Vec<&'static str>,
    concurrency: Option<usize>,
}

const ORDERS: usize = 8;

fn does() -> impl Strategy<Value = &'static str> {
    prop_oneof![4 => Just(""), 4 => Just("~"), 1 => Just("!"), 1 => Just("*")]
}

fn case() -> impl Strategy<Value = Case> {
    let source = proptest::sample::select(&Source::ALL[..]);
    let number = prop_oneof![9 => (0..ORDERS).prop_map(Some), 1 => Just(None)];
    let record = (0_u8..3, number).prop_map(|(group, order)| Record { group, order });
    (
        source,
        proptest::collection::vec(record, 0..14),
        proptest::collection::vec(does(), ORDERS),
        prop_oneof![Just(None), (1_usize..6).prop_map(Some)],
    )
        .prop_map(|(source, records, does, concurrency)| Case {
            source,
            records,
            does,
            concurrency,
        })
}

impl Case {
    fn succeeds(&self, record: &Record) -> bool {
        let does = record.order.map(|order| self.does[order]);
        matches!(does, Some("" | "~"))
    }

    /// Returns the places of the records that the response must name.
    fn expected(&self) -> Vec<usize> {
        let failed = |at: &usize| !self.succeeds(&self.records[*at]);
        let all = 0..self.records.len();
        match self.source {
            Source::Standard => all.filter(failed).collect(),
            // The first that fails, and all behind it in its group.
            Source::Fifo => all
                .filter(|at| {
                    let group = self.records[*at].group;
                    (0..=*at).any(|before| self.records[before].group == group && failed(&before))
                })
                .collect(),
            Source::Shard | Source::PartitionKey | Source::Changes => {
                all.into_iter().find(failed).into_iter().collect()
            }
        }
    }

    /// Returns true if `other`, which comes later in the batch, must not run before or beside `one`.
    fn are_ordered(&self, one: &Record, other: &Record) -> bool {
        match self.source {
            Source::Standard => false,
            Source::Shard | Source::Changes => true,
            Source::Fifo | Source::PartitionKey => one.group == other.group,
        }
    }

    /// Returns the records as [`Shop::deliver_text`] reads them, each without the mark of what its handler does.
    fn texts(&self) -> Vec<String> {
        let text = |record: &Record| match record.order {
            Some(order) => format!("{}:{order}", record.group),
            None => format!("{}?text", record.group),
        };
        self.records.iter().map(text).collect()
    }

    fn most_at_once(&self) -> usize {
        let is_ordered = self.source != Source::Standard;
        let default = if is_ordered { 1 } else { 10 };
        self.concurrency.unwrap_or(default)
    }
}

/// Delivers the batch, checks the response, and returns the orders that ran.
async fn deliver(shop: &Shop, case: &Case) -> Vec<String> {
    let mut batch = Batch::new(&shop.operation("batch.properties"));
    if let Some(concurrency) = case.concurrency {
        batch = batch.concurrency(concurrency);
    }
    let texts = case.texts();
    let marked = texts.iter().zip(&case.records).map(|(text, record)| {
        let mark = record.order.map_or("", |order| case.does[order]);
        format!("{text}{mark} ")
    });
    let records: String = marked.collect();
    let (returned, ran) = shop
        .deliver_text(case.source, &batch, &records, MINUTE)
        .await;
    let expected = case.expected().into_iter().map(|at| &*texts[at]);
    assert_eq!(returned, expected.collect::<Vec<_>>().join(" "));
    ran.split_whitespace().map(str::to_owned).collect()
}

/// Checks the runs of one delivery.
fn check_runs(case: &Case, ran: &[String], most: usize) {
    assert!(most <= case.most_at_once(), "{most} at once");
    let distinct: BTreeSet<_> = ran.iter().collect();
    assert_eq!(distinct.len(), ran.len(), "a key ran twice: {ran:?}");
    // Compares two keys that have one record each: if the two are ordered, the first one runs first.
    let mut firsts = BTreeMap::new();
    for (at, record) in case.records.iter().enumerate() {
        if let Some(order) = record.order {
            firsts.entry(order).or_insert_with(Vec::new).push(at);
        }
    }
    let place = |order: usize| ran.iter().position(|ran| *ran == order.to_string());
    for (one, one_at) in &firsts {
        for (other, other_at) in &firsts {
            if let ([first], [second]) = (&one_at[..], &other_at[..])
                && first < second
                && case.are_ordered(&case.records[*first], &case.records[*second])
                && let Some(later) = place(*other)
            {
                let earlier = place(*one);
                assert!(earlier.is_some_and(|earlier| earlier < later), "{ran:?}");
                assert!(
                    case.succeeds(&case.records[*first]),
                    "a run behind a failure: {ran:?}"
                );
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn the_partial_response_is_that_of_the_reference(case in case()) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let shop = Shop::new();
            let first = deliver(&shop, &case).await;
            check_runs(&case, &first, shop.most_at_once());

            // All is delivered again, and now every handler succeeds: what succeeded before is not run again.
            let again = Case { does: vec![""; ORDERS], ..case.clone() };
            for ran in deliver(&shop, &again).await {
                let number: usize = ran.parse().unwrap();
                let before = matches!(case.does[number], "" | "~");
                assert!(!(before && first.contains(&ran)), "{ran} succeeded before and ran again");
            }
        });
    }

    /// One at a time, each record with a time of its own.
    #[test]
    fn no_record_starts_that_would_not_end_before_the_deadline(
        times in proptest::collection::vec(0_u64..15_000, 1..12),
        left in 2_000_u64..60_000,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let shop = Shop::new();
            let orders: Vec<_> = (0..times.len()).map(|number| number.to_string()).collect();
            for (order, time) in orders.iter().zip(&times) {
                shop.set(order, Does::Take(Duration::from_millis(*time)));
            }
            let orders: Vec<_> = orders.iter().map(String::as_str).collect();
            let batch = Batch::new(&shop.operation("batch.properties.deadline")).concurrency(1);
            let (event, left_time) = (super::shop::queue(&orders), Duration::from_millis(left));
            let returned = shop.deliver(Source::Standard, &batch, &event, left_time).await.unwrap();

            let rest = 1_000.min(left / 10);
            let (mut now, mut longest, mut started) = (0, 0, 0);
            for time in &times {
                if left.saturating_sub(now) <= rest + longest {
                    break;
                }
                // No record starts after the deadline, because more than `rest` is left.
                now += time;
                longest = longest.max(*time);
                started += 1;
            }
            assert_eq!(shop.ran(), orders[..started]);
            let expected: Vec<_> = orders[started..].iter().map(|order| format!("m-{order}")).collect();
            assert_eq!(returned, expected);
        });
    }
}
