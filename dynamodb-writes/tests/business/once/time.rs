//! Bucket boundaries and clocks that differ.

use super::super::{client, database};
use super::*;

const MILLI: Duration = Duration::from_millis(1);

/// Returns an `Once` with a clock of its own, at this many milliseconds after [`START`].
fn writer_at(milliseconds: i64) -> Once {
    let clock = Arc::new(ManualClock::at(START + milliseconds));
    Once::new(plan()).unwrap().clock(clock)
}

fn milliseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap()
}

#[tokio::test]
async fn a_key_is_known_for_its_lifetime_wherever_in_a_bucket_it_begins() {
    let db = database().await;
    let client = client(&db, 1);
    let (bucket, lifetime) = (milliseconds(BUCKET), milliseconds(LIFETIME));
    let most = milliseconds(plan().estimate().unwrap().remembered_at_most());
    let mut case = 0;
    for begin in [0, 1, bucket / 2, bucket - 1] {
        // Other events in between remove old buckets.
        for between in [
            vec![],
            vec![lifetime / 2],
            vec![1, bucket, 2 * bucket, 3 * bucket, lifetime],
        ] {
            case += 1;
            let item = format!("c-{case}");
            let send = async |at: i64, event: &str| {
                let update = writer_at(at).update(TABLE, key(&item), event);
                let update = update.expression("ADD units :n").value(":n", number(1));
                update.send(&client).await.unwrap().is_applied()
            };
            assert!(send(begin, "evt").await);
            for (index, at) in between.iter().enumerate() {
                assert!(send(begin + at, &format!("other-{index}")).await);
            }
            assert!(
                !send(begin + lifetime, "evt").await,
                "begin {begin}, {between:?}"
            );
            assert!(
                send(begin + most, "evt").await,
                "begin {begin}, {between:?}"
            );
        }
    }
}

#[tokio::test]
async fn clocks_that_differ_by_the_skew_find_each_others_keys() {
    let db = database().await;
    let client = client(&db, 1);
    let (bucket, skew, lifetime) = (
        milliseconds(BUCKET),
        milliseconds(SKEW),
        milliseconds(LIFETIME),
    );
    let mut event = 0;
    for begin in [0, 1, skew, bucket - skew, bucket - 1] {
        for (first, second) in [(0, skew), (skew, 0)] {
            for later in [0, bucket - 1, lifetime] {
                event += 1;
                let name = format!("c-{event}");
                let send = async |at: i64| {
                    let update = writer_at(at).update(TABLE, key(&name), "evt");
                    let update = update.expression("ADD units :n").value(":n", number(1));
                    update.send(&client).await.unwrap().is_applied()
                };
                assert!(send(begin + first).await);
                assert!(
                    !send(begin + later + second).await,
                    "{begin} {first} {second} {later}"
                );
                assert!(
                    !send(begin + later + first).await,
                    "{begin} {first} {second} {later}"
                );
            }
        }
    }
}

#[tokio::test]
async fn a_clock_that_is_too_far_behind_is_refused_and_applies_nothing() {
    let db = database().await;
    let client = client(&db, 1);
    let bucket = milliseconds(BUCKET);
    assert!(counted(&client, &writer_at(10 * bucket), "evt-1").await);
    for behind in [2, 3, 5, 7, 9] {
        let late = writer_at((10 - behind) * bucket);
        for event in ["evt-1", "evt-2"] {
            let error = count(&late, event).send(&client).await.unwrap_err();
            let OnceError::ClockBehind(clock) = error else {
                panic!("the clock is behind: {error}");
            };
            assert_eq!(
                clock.at_least(),
                BUCKET * u32::try_from(behind - 1).unwrap()
            );
        }
    }
    // One bucket is within the plan, at both of its ends.
    let a_little = writer_at(10 * bucket - milliseconds(MILLI));
    assert!(!counted(&client, &a_little, "evt-1").await);
    assert!(counted(&client, &writer_at(9 * bucket), "evt-2").await);
    assert!(!counted(&client, &writer_at(10 * bucket), "evt-2").await);
    assert_eq!(units(&db).await, 2);
}

#[tokio::test]
async fn a_clock_before_1970_is_refused_before_anything_is_sent() {
    let db = database().await;
    let client = client(&db, 1);
    let error = count(&writer_at(-START - 5_000), "evt-1")
        .send(&client)
        .await
        .unwrap_err();
    assert!(matches!(error, OnceError::ClockBehind(_)), "{error}");
    assert_eq!(updates(&db), 0);
}
