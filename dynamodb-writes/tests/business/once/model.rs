//! Random updates by writers whose clocks differ, against a reference that remembers when each key was applied.

use std::collections::HashMap;

use idempotency_testkit::dynamodb::Fault;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::super::{client, database};
use super::*;

/// One step of a case. Times are in milliseconds.
#[derive(Clone, Debug)]
enum Step {
    /// Time passes.
    Pass(i64),
    /// A writer counts an event.
    Count {
        writer: usize,
        event: u8,
        lose_reply: bool,
    },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let bucket = 900_000_i64;
    let pass = prop_oneof![
        0..bucket / 2,
        Just(bucket),
        Just(5 * bucket - 60_000),
        Just(7 * bucket + 60_000),
        Just(9 * bucket),
        0..25 * bucket
    ];
    let count =
        (0..3_usize, 0..4_u8, any::<bool>()).prop_map(|(writer, event, lose_reply)| Step::Count {
            writer,
            event,
            lose_reply,
        });
    proptest::collection::vec(
        prop_oneof![1 => pass.prop_map(Step::Pass), 3 => count],
        1..40,
    )
}

#[test]
fn random_updates_agree_with_a_reference() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let db = runtime.block_on(database());
    let client = client(&db, 3);
    let most = milliseconds(plan().estimate().unwrap().remembered_at_most());
    let mut runner = TestRunner::new(Config::with_cases(60));
    let case = std::cell::Cell::new(0);
    let offsets = [0..=60_000_i64, 0..=60_000, 0..=60_000];
    let checked = runner.run(&(steps(), offsets), |(steps, offsets)| {
        case.set(case.get() + 1);
        let item = format!("c-{}", case.get());
        let writers = offsets.map(|offset| once_at(START + offset));
        let mut now = 0;
        let mut units = 0;
        let mut applied = HashMap::<u8, i64>::new();
        for step in steps {
            let (writer, event, lose_reply) = match step {
                Step::Pass(time) => {
                    now += time;
                    for (_, clock) in &writers {
                        clock.advance(Duration::from_millis(time.unsigned_abs()));
                    }
                    continue;
                }
                Step::Count {
                    writer,
                    event,
                    lose_reply,
                } => (writer, event, lose_reply),
            };
            if lose_reply {
                db.inject(Fault::on("UpdateItem").drop_reply());
            }
            let update = writers[writer]
                .0
                .update(TABLE, key(&item), [event])
                .return_item();
            let update = update.expression("ADD units :n").value(":n", number(1));
            let outcome = runtime.block_on(update.send(&client)).unwrap();
            db.clear_faults();
            let after = number_in(outcome.item().unwrap(), "units");
            let counted = after - units;
            units = after;
            prop_assert!(counted == 0 || counted == 1);
            if !lose_reply {
                prop_assert_eq!(outcome.is_applied(), counted == 1);
            }
            match applied.get(&event).map(|at| now - at) {
                Some(age) if age <= milliseconds(LIFETIME) => {
                    prop_assert_eq!(counted, 0, "age {}", age)
                }
                Some(age) if age < most => {}
                _ => prop_assert_eq!(counted, 1),
            }
            if counted == 1 {
                applied.insert(event, now);
            }
        }
        Ok(())
    });
    checked.unwrap();
}

fn milliseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap()
}
