//! Scenarios with an operator who decides about a held key.

use super::{Bounds, Ending, Faults, REPORTED_OR_NOT, RESPONDS_OR_FAILS, plain};

const DECISION: Faults = Faults {
    lost_replies: 1,
    failures: 0,
    conflicts: 0,
    delays: 0,
    kills: 0,
    evictions: 0,
    changes: 0,
    decisions: 1,
};

/// Returns a scenario of two calls that hold, and a decision.
pub(crate) fn decided_while_holding() -> Bounds {
    let call = || plain().holding().ending(REPORTED_OR_NOT);
    Bounds {
        faults: DECISION,
        ..Bounds::new(
            "all calls hold, an operator decides",
            vec![call(), call().recording()],
        )
    }
}

/// Returns a scenario of two calls of which only one holds, whose responses can be too large, and a decision.
pub(crate) fn decided_beside_a_takeover() -> Bounds {
    let call = || plain().ending(&[Ending::Responds, Ending::RespondsTooLarge]);
    Bounds {
        ticks: 3,
        faults: DECISION,
        ..Bounds::new(
            "some hold, an operator decides",
            vec![call(), call().holding()],
        )
    }
}

/// Returns a scenario of two calls of one process that hold, and a decision.
pub(crate) fn decided_in_one_process() -> Bounds {
    let holding = || {
        let call = plain().in_one_process().holding().cached();
        call.ending(RESPONDS_OR_FAILS)
    };
    Bounds {
        ticks: 3,
        faults: Faults {
            lost_replies: 0,
            ..DECISION
        },
        ..Bounds::new(
            "all calls hold in one process, an operator decides",
            vec![holding(), holding().waiting().leased(3)],
        )
    }
}

/// Returns a scenario of two calls without faults, and a decision.
pub(crate) fn quiet_decided() -> Bounds {
    Bounds {
        faults: Faults {
            lost_replies: 0,
            ..DECISION
        },
        ..Bounds::new("an operator decides, no faults", vec![plain(), plain()])
    }
}
