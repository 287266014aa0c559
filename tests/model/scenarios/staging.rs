//! The scenarios of calls whose handlers stage writes.

use super::super::bounds::{Bounds, Delivery, Ending, Faults};
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
    Bounds {
        ticks: 3,
        faults: Faults {
            lost_replies: 1,
            changes: 2,
            ..Faults::default()
        },
        ..Bounds::new("both stage writes", vec![stages(), stages()])
    }
}

/// Returns a scenario of two calls of which a store recognises the tokens.
pub(crate) fn staged_with_tokens() -> Bounds {
    Bounds {
        ticks: 2,
        tokens: true,
        faults: Faults {
            lost_replies: 1,
            changes: 1,
            ..Faults::default()
        },
        ..Bounds::new(
            "both stage writes, the store knows tokens",
            vec![stages(), stages()],
        )
    }
}

/// Returns a scenario of two calls, and an eviction by an operator.
pub(crate) fn staged_and_evicted() -> Bounds {
    Bounds {
        ticks: 2,
        faults: Faults {
            lost_replies: 1,
            evictions: 1,
            changes: 1,
            ..Faults::default()
        },
        ..Bounds::new("both stage writes, evicted", vec![stages(), stages()])
    }
}

/// Returns a scenario of two calls, one of which ends in several ways and records failures.
pub(crate) fn staged_endings() -> Bounds {
    let any = plain().ending(STAGES_OR_NOT).recording();
    Bounds {
        ticks: 2,
        faults: Faults {
            lost_replies: 1,
            changes: 2,
            ..Faults::default()
        },
        ..Bounds::new("one stages writes or not", vec![any, stages()])
    }
}

/// Returns a scenario of two calls that hold.
pub(crate) fn staged_and_held() -> Bounds {
    let call = || plain().holding().ending(STAGES_OR_PANICS);
    Bounds {
        ticks: 2,
        faults: Faults {
            lost_replies: 1,
            changes: 2,
            ..Faults::default()
        },
        ..Bounds::new(
            "both stage writes and hold",
            vec![call(), call().recording()],
        )
    }
}

/// Returns a scenario of two calls whose window ends.
pub(crate) fn staged_and_windows_end() -> Bounds {
    Bounds {
        ticks: 3,
        window_s: 1,
        ttl: true,
        faults: Faults {
            lost_replies: 1,
            changes: 1,
            ..Faults::default()
        },
        ..Bounds::new("both stage writes, windows end", vec![stages(), stages()])
    }
}

/// Returns a scenario of two calls in one process, beside a call of another process.
pub(crate) fn staged_in_one_process() -> Bounds {
    let near = || stages().in_one_process();
    Bounds {
        ticks: 2,
        faults: Faults {
            changes: 1,
            ..Faults::default()
        },
        ..Bounds::new(
            "in one process, all stage writes",
            vec![stages(), near(), near()],
        )
    }
}

/// Returns a scenario of one call, with a lost reply and changes of the data.
pub(crate) fn one_staged_write() -> Bounds {
    Bounds {
        faults: Faults {
            lost_replies: 1,
            failures: 1,
            changes: 2,
            ..Faults::default()
        },
        ..Bounds::new("one call that stages writes", vec![stages().leased(2)])
    }
}

/// Returns a scenario of one call of which a claim and a transaction can arrive late.
pub(crate) fn late_staged_write() -> Bounds {
    Bounds {
        faults: Faults {
            lost_replies: 2,
            changes: 2,
            ..Faults::default()
        },
        ..Bounds::new("one call that stages writes, two losses", vec![stages()])
    }
}

/// Returns a scenario of one call of which a claim and a transaction can arrive late, after an eviction.
pub(crate) fn late_and_evicted() -> Bounds {
    Bounds {
        tokens: true,
        faults: Faults {
            lost_replies: 2,
            evictions: 1,
            changes: 1,
            ..Faults::default()
        },
        ..Bounds::new(
            "one call that stages writes, two losses, evicted",
            vec![stages()],
        )
    }
}

/// Returns the same scenario with a store that forgets each token at once.
pub(crate) fn late_and_evicted_without_tokens() -> Bounds {
    Bounds {
        tokens: false,
        ..late_and_evicted()
    }
}

/// Returns a scenario of two calls that hold, stage writes or not, and meet the transaction of another program.
pub(crate) fn conflicts() -> Bounds {
    let call = || {
        plain()
            .holding()
            .ending(&[Ending::Responds, Ending::Stages])
    };
    Bounds {
        ticks: 3,
        faults: Faults {
            conflicts: 2,
            ..Faults::default()
        },
        ..Bounds::new("both meet a transaction and hold", vec![call(), call()])
    }
}

/// Returns a scenario of one call that runs unprotected if the store fails, of which a claim and a transaction can arrive late.
pub(crate) fn staged_and_unprotected() -> Bounds {
    Bounds {
        ticks: 1,
        faults: Faults {
            lost_replies: 2,
            failures: 1,
            changes: 1,
            ..Faults::default()
        },
        ..Bounds::new(
            "one call that stages writes runs unprotected",
            vec![stages().unprotected()],
        )
    }
}

/// Returns the larger scenarios, which are explored only on request.
pub(crate) fn large_staged() -> Vec<Bounds> {
    let any = || plain().ending(STAGES_OR_NOT);
    let held = || plain().holding().ending(STAGES_OR_PANICS);
    vec![
        Bounds {
            ticks: 3,
            faults: Faults {
                lost_replies: 2,
                failures: 1,
                changes: 2,
                ..Faults::default()
            },
            ..Bounds::new("both stage writes, two losses", vec![stages(), stages()])
        },
        Bounds {
            ticks: 3,
            tokens: true,
            faults: Faults {
                lost_replies: 2,
                evictions: 1,
                changes: 1,
                ..Faults::default()
            },
            ..Bounds::new(
                "both stage writes, two losses, evicted",
                vec![stages(), stages()],
            )
        },
        Bounds {
            ticks: 3,
            faults: Faults {
                lost_replies: 1,
                changes: 2,
                ..Faults::default()
            },
            ..Bounds::new("both stage writes or not", vec![any(), any().recording()])
        },
        Bounds {
            faults: Faults {
                lost_replies: 1,
                failures: 1,
                changes: 1,
                ..Faults::default()
            },
            ..Bounds::new(
                "both stage writes and hold, the store fails",
                vec![held(), held().recording()],
            )
        },
        Bounds {
            window_s: 1,
            ttl: true,
            skews: &[0, 1],
            faults: Faults {
                lost_replies: 1,
                changes: 1,
                ..Faults::default()
            },
            ..Bounds::new(
                "both stage writes, windows end, clocks off",
                vec![stages(), stages()],
            )
        },
    ]
}

/// Returns a scenario of two calls without faults.
pub(crate) fn quiet_staged() -> Bounds {
    Bounds::new("two calls that stage writes", vec![stages(), stages()])
}
