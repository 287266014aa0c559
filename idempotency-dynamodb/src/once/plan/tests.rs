use super::*;

const HOUR: Duration = Duration::from_secs(3600);

fn estimate(plan: Plan) -> Estimate {
    plan.estimate().unwrap()
}

#[test]
fn the_largest_rate_holds_and_a_little_more_does_not() {
    for (lifetime, own_bytes) in [
        (Duration::from_secs(10), 100),
        (HOUR, 500),
        (HOUR * 24, 500),
        (HOUR * 24 * 30, 100_000),
    ] {
        let at = |rate| estimate(plan(rate, lifetime).own_bytes(own_bytes));
        let largest = at(1.0).largest_rate();
        assert!(at(largest).holds(), "{lifetime:?}");
        assert!(!at(largest * 1.01 + 0.001).holds(), "{lifetime:?}");
        assert!((at(0.001).largest_rate() - largest).abs() < 1e-9);
    }
}

#[test]
fn both_limits_of_dynamodb_are_checked() {
    // Many keys and few writes: the item would be too large.
    let month = estimate(plan(0.02, HOUR * 24 * 31));
    assert!(month.item_bytes() > 409_600 && month.rate() * (month.write_units() as f64) < 1_000.0);
    assert!(!month.holds());
    // Many writes of a large item: the partition takes no more.
    let busy = estimate(plan(3.0, Duration::from_secs(60)).own_bytes(390_000));
    assert!(busy.item_bytes() <= 409_600 && busy.rate() * (busy.write_units() as f64) > 1_000.0);
    assert!(!busy.holds());
}

#[test]
fn thirty_thousand_keys_fit_into_one_item() {
    let most = estimate(plan(1.965, 3 * HOUR));
    assert!(most.keys() > 29_990 && most.holds(), "{most}");
    assert_eq!(most.bytes_per_key(), 13);
}

#[test]
fn a_key_is_known_for_the_lifetime_by_each_clock() {
    for seconds in [1, 59, 60, 61, 3_599, 3_600, 1_000_000] {
        for skew in [1, 60, 600] {
            let (lifetime, clock_skew) = (Duration::from_secs(seconds), Duration::from_secs(skew));
            let plan = plan(0.001, lifetime).clock_skew(clock_skew);
            let bucket = plan.layout().unwrap().bucket.unsigned_abs();
            assert!(5 * bucket >= seconds + skew && bucket >= skew);
            let most = estimate(plan).remembered_at_most();
            assert_eq!(most.as_secs(), 7 * bucket + skew);
        }
    }
}

#[test]
fn the_rate_and_the_own_bytes_do_not_change_where_keys_are_kept() {
    let layout = |plan: Plan| plan.layout().unwrap();
    assert_eq!(
        layout(plan(1.0, HOUR)),
        layout(plan(2.0, HOUR).own_bytes(9_000))
    );
    assert_ne!(layout(plan(1.0, HOUR)), layout(plan(1.0, HOUR * 2)));
}

#[test]
fn the_marker_is_cheaper_for_many_keys_and_dearer_for_few() {
    let few = estimate(plan(0.01, HOUR));
    assert_eq!(
        (few.average_write_units(), few.marker_write_units()),
        (2, 4)
    );
    assert!(!few.is_marker_cheaper());
    let many = estimate(plan(1.0, HOUR));
    assert!(many.is_marker_cheaper());
    assert!((many.marker_largest_rate() - 500.0).abs() < 1e-9);
}

#[test]
fn the_refusal_of_a_rate_has_the_numbers() {
    let error = crate::once::Once::new(plan(10.0, HOUR)).unwrap_err();
    let text = error.to_string();
    for part in [
        "10 writes a second",
        "51864 keys",
        "674927 bytes",
        "660 write units",
        "largest rate is 3.89",
        "takes 4 write units",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn numbers_out_of_their_range_are_refused() {
    let plans = [
        plan(0.0, HOUR),
        plan(-1.0, HOUR),
        plan(f64::NAN, HOUR),
        plan(f64::INFINITY, HOUR),
        plan(1.0, Duration::ZERO),
        plan(1.0, LONGEST * 2),
        plan(0.1, HOUR).clock_skew(Duration::ZERO),
        plan(0.1, HOUR).key_bytes(7),
        plan(0.1, HOUR).key_bytes(33),
        plan(0.1, HOUR).attributes(""),
    ];
    for plan in plans {
        assert!(
            matches!(plan.estimate(), Err(PlanError::Invalid(_))),
            "{plan:?}"
        );
    }
    // As many as an integer has: a refusal, and no overflow.
    assert!(!estimate(plan(f64::MAX, LONGEST).own_bytes(1)).holds());
}

#[test]
fn the_table_of_the_guide_is_that_of_the_planner() {
    let guide = include_str!("../../../../docs/guide/counters.md");
    for (lifetime, hours, text, rate) in [
        (HOUR, 1, "36 an hour", 0.01),
        (HOUR, 1, "360 an hour", 0.1),
        (HOUR, 1, "1 a second", 1.0),
        (HOUR * 24, 24, "0.1 a second", 0.1),
        (HOUR * 3, 3, "1.96 a second", 1.96),
    ] {
        let estimate = estimate(plan(rate, lifetime));
        let kilobytes = estimate.item_bytes() as f64 / 1024.0;
        let decimals = usize::from(kilobytes < 10.0);
        let keys = estimate.keys();
        let keys = match keys / 1_000 {
            0 => keys.to_string(),
            thousands => format!("{thousands},{:03}", keys % 1_000),
        };
        let (units, marker) = (estimate.write_units(), estimate.marker_write_units());
        let row = format!(
            "| {hours} h | {text} | {keys} | {kilobytes:.decimals$} KB | {units} | {marker} |"
        );
        assert!(guide.contains(&row), "{row}");
    }
    let largest = |lifetime| estimate(plan(0.01, lifetime)).largest_rate();
    let (hour, day) = (largest(HOUR), largest(HOUR * 24));
    let sentence = format!("keys of 1 h is {hour:.1} a second, and {day:.2} with keys of 24 h");
    assert!(guide.contains(&sentence), "{sentence}");
    // Where the marker becomes cheaper, in keys held on average.
    let cheaper = (1..1_000).find(|keys| {
        let rate = f64::from(*keys) / 4_758.0;
        estimate(plan(rate, HOUR)).is_marker_cheaper()
    });
    let keys = cheaper.unwrap() / 10 * 10;
    assert!(
        guide.contains(&format!("from about {keys} keys on")),
        "{keys}"
    );
}
