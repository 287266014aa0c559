//! What this framework must reach, and whether it does.

use serde::Serialize;

use super::{Entry, name};
use crate::contestants::{EventKind, Kind, Part};
use crate::samples::{Line, Measure};
use crate::server::ServerKind;

/// A target with what was measured for it.
#[derive(Clone, Debug, Serialize)]
pub struct Target {
    pub what: String,
    pub contestant: String,
    pub server: Option<ServerKind>,
    pub event_bytes: Option<usize>,
    pub measured: f64,
    /// The largest value that meets the target; the smallest one if `at_least`.
    pub limit: f64,
    pub at_least: bool,
    pub met: bool,
}

const WARM: [(Measure, f64); 5] = [
    (Measure::FreshCpu, 0.75),
    (Measure::FreshWall, 0.90),
    (Measure::DuplicateCpu, 0.85),
    (Measure::DuplicateWall, 0.97),
    (Measure::PeakMemory, 1.0),
];
/// An HTTP function also checks that the body of a duplicate is the same.
const WARM_HTTP: [(Measure, f64); 4] = [
    (Measure::FreshCpu, 0.90),
    (Measure::DuplicateCpu, 1.0),
    (Measure::DuplicateWall, 1.0),
    (Measure::PeakMemory, 1.0),
];
const COLD: [(Measure, f64); 2] = [(Measure::FirstPoll, 1.0), (Measure::FirstResponse, 1.0)];
const COLD_TLS: [(Measure, f64); 2] = [(Measure::FirstResponse, 0.20), (Measure::FirstCall, 0.10)];
/// Microseconds of our own for a cached duplicate of a 4 KB event.
const CACHED: f64 = 25.0;
/// How many times slower the frameworks of other languages are, at least: a fresh call, and the first response.
const PEERS: [(Part, Measure, f64); 2] = [
    (Part::Warm, Measure::FreshWall, 3.0),
    (Part::Cold, Measure::FirstResponse, 15.0),
];

/// Compares the results with the targets.
pub fn targets(entries: &[Entry], lines: &[Line]) -> Vec<Target> {
    let mut targets = Vec::new();
    let entry = |name: &str| entries.iter().find(|entry| entry.name == name);
    for line in lines {
        let Some(own) = entry(&line.contestant) else {
            continue;
        };
        if own.kind != Kind::Ours || own.cached {
            continue;
        }
        let limits: &[(Measure, f64)] = match (line.setting.part, line.setting.server) {
            (Part::Warm, _) if own.event == EventKind::Http => &WARM_HTTP,
            (Part::Warm, _) => &WARM,
            (Part::Cold, ServerKind::StubTls) => &COLD_TLS,
            (Part::Cold, _) => &COLD,
            _ => &[],
        };
        let limit = limits.iter().find(|(measure, _)| *measure == line.measure);
        if let (Some((_, limit)), Some(ratio)) = (limit, &line.ratio) {
            let what = format!("{}, ratio to {}", name(line.measure), ratio.to);
            targets.push(target(what, line, ratio.summary.median, *limit, false));
        }
    }
    targets.extend(binaries(entries));
    targets.extend(cached(entries, lines));
    targets.extend(peers(entries, lines));
    targets
}

fn binaries(entries: &[Entry]) -> Vec<Target> {
    let size = |entry: &Entry| {
        entry
            .binary
            .map(|binary| binary.stripped_bytes.unwrap_or(binary.bytes) as f64)
    };
    let ours = entries
        .iter()
        .filter(|entry| entry.kind == Kind::Ours && !entry.cached);
    ours.filter_map(|own| {
        let by_hand = entries
            .iter()
            .filter(|entry| entry.kind == Kind::ByHand && entry.group == own.group);
        let smallest = by_hand.filter_map(size).min_by(f64::total_cmp)?;
        let measured = size(own)? / smallest;
        Some(Target {
            what: "binary without symbols, ratio to by hand".to_owned(),
            contestant: own.name.clone(),
            server: None,
            event_bytes: None,
            measured,
            limit: 1.0,
            at_least: false,
            met: measured <= 1.0,
        })
    })
    .collect()
}

/// What a cached duplicate takes more than the same function without idempotency.
fn cached(entries: &[Entry], lines: &[Line]) -> Vec<Target> {
    let small = lines.iter().filter(|line| {
        line.setting.part == Part::Warm
            && line.setting.event_bytes == 4096
            && line.measure == Measure::DuplicateCpu
    });
    small
        .filter_map(|line| {
            let own = entries
                .iter()
                .find(|entry| entry.name == line.contestant && entry.cached)?;
            let bare = beside(
                line,
                Kind::Bare,
                &own.group,
                Measure::FreshCpu,
                entries,
                lines,
            )?;
            let measured = line.summary.median - bare.summary.median;
            let what = format!("cached duplicate, us of CPU more than {}", bare.contestant);
            Some(target(what, line, measured, CACHED, false))
        })
        .collect()
}

fn peers(entries: &[Entry], lines: &[Line]) -> Vec<Target> {
    let mut targets = Vec::new();
    for peer in entries.iter().filter(|entry| entry.kind == Kind::Peer) {
        for (part, measure, limit) in PEERS {
            let of_peer = lines.iter().filter(|line| {
                line.contestant == peer.name && line.setting.part == part && line.measure == measure
            });
            for line in of_peer {
                let ours = beside(line, Kind::Ours, &peer.group, measure, entries, lines);
                if let Some(ours) = ours {
                    let what = format!("{}, times that of {}", name(measure), ours.contestant);
                    let measured = line.summary.median / ours.summary.median;
                    targets.push(target(what, line, measured, limit, true));
                }
            }
        }
    }
    targets
}

/// Returns what a contestant of this kind and group, which caches nothing, took under the setting of a line.
fn beside<'a>(
    line: &Line,
    kind: Kind,
    group: &str,
    measure: Measure,
    entries: &[Entry],
    lines: &'a [Line],
) -> Option<&'a Line> {
    let is_meant = |entry: &&Entry| entry.kind == kind && entry.group == group && !entry.cached;
    entries.iter().filter(is_meant).find_map(|entry| {
        lines.iter().find(|other| {
            other.contestant == entry.name
                && other.measure == measure
                && other.setting == line.setting
        })
    })
}

fn target(what: String, line: &Line, measured: f64, limit: f64, at_least: bool) -> Target {
    Target {
        what,
        contestant: line.contestant.clone(),
        server: Some(line.setting.server),
        event_bytes: Some(line.setting.event_bytes),
        measured,
        limit,
        at_least,
        met: if at_least {
            measured >= limit
        } else {
            measured <= limit
        },
    }
}
