//! Larger scenarios, which are explored only on request.

use super::bounds::{Bounds, Python};
use super::check::explore;
use super::scenarios::{
    ALL_ENDINGS, REPORTED_OR_NOT, RESPONDS_OR_FAILS, STORED_OR_NOT, large_staged, plain,
};

/// The variable that requests them: `long`, or `long:` and a part of the name of some.
const VARIABLE: &str = "IDEMPOTENCY_MODEL";

#[test]
fn long() {
    let requested = std::env::var(VARIABLE).unwrap_or_default();
    let Some(chosen) = requested.strip_prefix("long") else {
        println!("larger scenarios are explored with {VARIABLE}=long, in the release profile");
        return;
    };
    let part = chosen.strip_prefix(':').unwrap_or_default();
    let chosen: Vec<_> = scenarios()
        .into_iter()
        .chain(large_staged())
        .filter(|scenario| scenario.name.contains(part))
        .collect();
    assert!(!chosen.is_empty(), "no scenario has `{part}` in its name");
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    for scenario in chosen {
        explore(scenario, &[], threads);
    }
}

fn scenarios() -> Vec<Bounds> {
    let any = || plain().ending(ALL_ENDINGS);
    let holding = || plain().holding().ending(REPORTED_OR_NOT);
    let may_fail = || plain().ending(RESPONDS_OR_FAILS);
    vec![
        Bounds::new("three calls, two losses", vec![plain(), plain(), plain()])
            .with(|it| it.faults.lost_replies = 2),
        Bounds::new("three calls, clocks off", vec![plain(), plain(), plain()]).with(|it| {
            it.ticks = 3;
            it.skews = &[0, 1];
            it.faults.lost_replies = 1;
            it.faults.delays = 1;
        }),
        Bounds::new(
            "three calls of two payloads, some wait",
            vec![
                may_fail().of_payload("p"),
                plain().of_payload("p").recording().waiting().leased(2),
                plain().of_payload("q").ending(STORED_OR_NOT),
            ],
        )
        .with(|it| it.faults.lost_replies = 1),
        Bounds::new(
            "three calls, all hold",
            vec![holding(), holding(), holding().recording()],
        )
        .with(|it| {
            it.faults.lost_replies = 1;
            it.faults.delays = 1;
        }),
        Bounds::new(
            "two calls, every ending, store fails",
            vec![any(), any().recording()],
        )
        .with(|it| {
            it.faults.lost_replies = 1;
            it.faults.failures = 1;
        }),
        Bounds::new(
            "two calls beside Python, clocks off",
            vec![plain(), plain()],
        )
        .with(|it| {
            it.python = Some(Python {
                lease: 1,
                outlives: false,
            });
            it.window_s = 2;
            it.ttl = true;
            it.skews = &[0, 1];
            it.faults.lost_replies = 1;
        }),
        Bounds::new("four calls", vec![plain(), plain(), plain(), plain()]).with(|it| {
            it.ticks = 3;
            it.faults.lost_replies = 1;
        }),
        Bounds::new(
            "three calls in one process",
            vec![
                may_fail().in_one_process(),
                plain().in_one_process(),
                plain().in_one_process().waiting().leased(3),
            ],
        )
        .with(|it| {
            it.ticks = 3;
            it.faults.lost_replies = 1;
        }),
        Bounds::new(
            "two payloads in one process, evicted",
            vec![
                plain()
                    .in_one_process()
                    .of_payload("p")
                    .ending(STORED_OR_NOT),
                plain()
                    .in_one_process()
                    .of_payload("p")
                    .waiting()
                    .leased(2)
                    .cached(),
                plain().in_one_process().of_payload("q").cached(),
            ],
        )
        .with(|it| {
            it.ticks = 3;
            it.faults.kills = 1;
            it.faults.evictions = 1;
        }),
        Bounds::new(
            "in one process, all read first, windows end",
            vec![
                plain().reading_first(),
                plain().reading_first().in_one_process().cached(),
                plain()
                    .reading_first()
                    .in_one_process()
                    .cached()
                    .waiting()
                    .leased(2),
            ],
        )
        .with(|it| {
            it.ticks = 3;
            it.window_s = 1;
            it.ttl = true;
            it.stale = 1;
        }),
        Bounds::new(
            "two calls, two losses, all run unprotected",
            vec![may_fail().unprotected(), plain().unprotected()],
        )
        .with(|it| {
            it.ticks = 3;
            it.faults.lost_replies = 2;
            it.faults.failures = 1;
        }),
        Bounds::new(
            "three calls, all read first",
            vec![
                may_fail().reading_first(),
                plain().reading_first(),
                plain().reading_first(),
            ],
        )
        .with(|it| {
            it.ticks = 3;
            it.stale = 3;
            it.faults.lost_replies = 1;
        }),
        Bounds::new(
            "two calls, everything fails, windows end",
            vec![plain().cached(), plain().cached()],
        )
        .with(|it| {
            it.ticks = 3;
            it.window_s = 1;
            it.ttl = true;
            it.skews = &[0, 1];
            it.faults.lost_replies = 1;
            it.faults.delays = 1;
            it.faults.evictions = 1;
        }),
    ]
}
