//! The scenarios of calls whose handlers stage writes.

use super::super::bounds::{Bounds, Delivery, Ending};
use super::plain;

const STAGES: &[Ending] = &[Ending::Stages];
const STAGES_OR_NOT: &[Ending] = &[
    Ending::Stages,
    Ending::StagesTooLarge,
    Ending::RespondsUnstored,
    Ending::Fails,
];
const STAGES_OR_PANICS: &[Ending] = &[Ending::Stages, Ending::Panics];

fn stages() -> Delivery {
    plain().ending(STAGES)
}

/// Returns a scenario of two calls, with a lost reply and changes of the data.
pub(crate) fn staged_writes() -> Bounds {
    Bounds::new("both stage writes", vec![stages(), stages()]).with(|it| {
        it.ticks = 3;
        it.faults.lost_replies = 1;
        it.faults.changes = 2;
    })
}

/// Returns a scenario of two calls of which a store recognises the tokens.
pub(crate) fn staged_with_tokens() -> Bounds {
    Bounds::new(
        "both stage writes, the store knows tokens",
        vec![stages(), stages()],
    )
    .with(|it| {
        it.ticks = 2;
        it.tokens = true;
        it.faults.lost_replies = 1;
        it.faults.changes = 1;
    })
}

/// Returns a scenario of two calls, and an eviction by an operator.
pub(crate) fn staged_and_evicted() -> Bounds {
    Bounds::new("both stage writes, evicted", vec![stages(), stages()]).with(|it| {
        it.ticks = 2;
        it.faults.lost_replies = 1;
        it.faults.evictions = 1;
        it.faults.changes = 1;
    })
}

/// Returns a scenario of two calls, one of which ends in several ways and records failures.
pub(crate) fn staged_endings() -> Bounds {
    let any = plain().ending(STAGES_OR_NOT).recording();
    Bounds::new("one stages writes or not", vec![any, stages()]).with(|it| {
        it.ticks = 2;
        it.faults.lost_replies = 1;
        it.faults.changes = 2;
    })
}

/// Returns a scenario of two calls that hold.
pub(crate) fn staged_and_held() -> Bounds {
    let call = || plain().holding().ending(STAGES_OR_PANICS);
    Bounds::new(
        "both stage writes and hold",
        vec![call(), call().recording()],
    )
    .with(|it| {
        it.ticks = 2;
        it.faults.lost_replies = 1;
        it.faults.changes = 2;
    })
}

/// Returns a scenario of two calls whose window ends.
pub(crate) fn staged_and_windows_end() -> Bounds {
    Bounds::new("both stage writes, windows end", vec![stages(), stages()]).with(|it| {
        it.ticks = 3;
        it.window_s = 1;
        it.ttl = true;
        it.faults.lost_replies = 1;
        it.faults.changes = 1;
    })
}

/// Returns a scenario of two calls in one process, beside a call of another process.
pub(crate) fn staged_in_one_process() -> Bounds {
    let near = || stages().in_one_process();
    Bounds::new(
        "in one process, all stage writes",
        vec![stages(), near(), near()],
    )
    .with(|it| {
        it.ticks = 2;
        it.faults.changes = 1;
    })
}

/// Returns a scenario of one call, with a lost reply and changes of the data.
pub(crate) fn one_staged_write() -> Bounds {
    Bounds::new("one call that stages writes", vec![stages().leased(2)]).with(|it| {
        it.faults.lost_replies = 1;
        it.faults.failures = 1;
        it.faults.changes = 2;
    })
}

/// Returns a scenario of one call of which a claim and a transaction can arrive late.
pub(crate) fn late_staged_write() -> Bounds {
    Bounds::new("one call that stages writes, two losses", vec![stages()]).with(|it| {
        it.faults.lost_replies = 2;
        it.faults.changes = 2;
    })
}

/// Returns a scenario of one call of which a claim and a transaction can arrive late, after an eviction.
pub(crate) fn late_and_evicted() -> Bounds {
    Bounds::new(
        "one call that stages writes, two losses, evicted",
        vec![stages()],
    )
    .with(|it| {
        it.tokens = true;
        it.faults.lost_replies = 2;
        it.faults.evictions = 1;
        it.faults.changes = 1;
    })
}

/// Returns the same scenario with a store that forgets each token at once.
pub(crate) fn late_and_evicted_without_tokens() -> Bounds {
    late_and_evicted().with(|it| it.tokens = false)
}

/// Returns a scenario of two calls that hold, stage writes or not, and meet the transaction of another program.
pub(crate) fn conflicts() -> Bounds {
    let call = || {
        plain()
            .holding()
            .ending(&[Ending::Responds, Ending::Stages])
    };
    Bounds::new("both meet a transaction and hold", vec![call(), call()]).with(|it| {
        it.ticks = 3;
        it.faults.conflicts = 2;
    })
}

/// Returns a scenario of one call that runs unprotected if the store fails, of which a claim and a transaction can arrive late.
pub(crate) fn staged_and_unprotected() -> Bounds {
    Bounds::new(
        "one call that stages writes runs unprotected",
        vec![stages().unprotected()],
    )
    .with(|it| {
        it.ticks = 1;
        it.faults.lost_replies = 2;
        it.faults.failures = 1;
        it.faults.changes = 1;
    })
}

/// Returns the larger scenarios, which are explored only on request.
pub(crate) fn large_staged() -> Vec<Bounds> {
    let any = || plain().ending(STAGES_OR_NOT);
    let held = || plain().holding().ending(STAGES_OR_PANICS);
    vec![
        Bounds::new("both stage writes, two losses", vec![stages(), stages()]).with(|it| {
            it.ticks = 3;
            it.faults.lost_replies = 2;
            it.faults.failures = 1;
            it.faults.changes = 2;
        }),
        Bounds::new(
            "both stage writes, two losses, evicted",
            vec![stages(), stages()],
        )
        .with(|it| {
            it.ticks = 3;
            it.tokens = true;
            it.faults.lost_replies = 2;
            it.faults.evictions = 1;
            it.faults.changes = 1;
        }),
        Bounds::new("both stage writes or not", vec![any(), any().recording()]).with(|it| {
            it.ticks = 3;
            it.faults.lost_replies = 1;
            it.faults.changes = 2;
        }),
        Bounds::new(
            "both stage writes and hold, the store fails",
            vec![held(), held().recording()],
        )
        .with(|it| {
            it.faults.lost_replies = 1;
            it.faults.failures = 1;
            it.faults.changes = 1;
        }),
        Bounds::new(
            "both stage writes, windows end, clocks off",
            vec![stages(), stages()],
        )
        .with(|it| {
            it.window_s = 1;
            it.ttl = true;
            it.skews = &[0, 1];
            it.faults.lost_replies = 1;
            it.faults.changes = 1;
        }),
    ]
}

/// Returns a scenario of two calls without faults.
pub(crate) fn quiet_staged() -> Bounds {
    Bounds::new("two calls that stage writes", vec![stages(), stages()])
}
