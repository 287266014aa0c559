//! The differences of one number, one attribute, one item.

use serde_json::Value;

/// How an effect differs from that of a faultless run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in super::super) enum Kind {
    /// It happened less often.
    Lost,
    /// It happened more often.
    Twice,
}

/// An effect that differs from that of a faultless run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct Difference {
    pub(in super::super) kind: Kind,
    /// What happened, as a sentence.
    pub(in super::super) text: String,
}

impl Difference {
    pub(super) fn new(kind: Kind, text: String) -> Self {
        Self { kind, text }
    }
}

/// Compares the change of a number with the change in a faultless run.
pub(super) fn number(before: f64, expected: f64, actual: f64) -> Option<Kind> {
    let (should, did) = (expected - before, actual - before);
    if (did - should).abs() < f64::EPSILON * expected.abs().max(actual.abs()).max(1.0) {
        return None;
    }
    let further = if should == 0.0 {
        true
    } else {
        did / should > 1.0
    };
    Some(if further { Kind::Twice } else { Kind::Lost })
}

/// Above this, two numbers that differ by less than 1 % are taken for points in time.
const EPOCH_SECONDS: f64 = 1_000_000_000.0;

/// An attribute, or a part of one, in a faultless run and in a scenario.
pub(super) struct Attribute<'a> {
    pub(super) before: Option<&'a Value>,
    pub(super) expected: Option<&'a Value>,
    /// What the second faultless run has here, if it has the item.
    pub(super) again: Option<Option<&'a Value>>,
    pub(super) actual: Option<&'a Value>,
    /// The values that were here in the course of the first faultless run.
    pub(super) earlier: Vec<&'a Value>,
}

impl Attribute<'_> {
    /// Returns how the attribute differs. An attribute that differs between faultless runs, such as a time, is not compared.
    pub(super) fn compare(&self) -> Option<Kind> {
        if self.actual == self.expected || self.again.is_some_and(|again| again != self.expected) {
            return None;
        }
        let (Some(expected), Some(actual)) = (self.expected, self.actual) else {
            // Something new that no faultless run has can be a note of the retry.
            let known = self
                .actual
                .is_some_and(|actual| self.earlier.contains(&actual));
            return (self.actual.is_none() || known).then_some(Kind::Lost);
        };
        if let (Some(expected), Some(actual)) = (as_number(expected), as_number(actual)) {
            let before = self.before.and_then(as_number).unwrap_or_default();
            let is_time = expected > EPOCH_SECONDS
                && actual > EPOCH_SECONDS
                && (actual / expected - 1.0).abs() < 0.01;
            return if is_time {
                None
            } else {
                number(before, expected, actual)
            };
        }
        if let (Some(expected), Some(actual)) = (length(expected), length(actual))
            && expected != actual
        {
            let before = self.before.and_then(length).unwrap_or_default();
            return number(before, expected, actual);
        }
        if let (Some(expected), Some(actual)) = (expected.get("M"), actual.get("M")) {
            return self.members(expected, actual);
        }
        self.earlier.contains(&actual).then_some(Kind::Lost)
    }

    fn members(&self, expected: &Value, actual: &Value) -> Option<Kind> {
        let names = expected.as_object()?.keys();
        let names = names.chain(actual.as_object()?.keys());
        let kinds = names.filter_map(|name| {
            let inside = |value: &'_ Value| {
                value
                    .get("M")
                    .and_then(|members| members.get(name))
                    .cloned()
            };
            let before = self.before.and_then(inside);
            let again = self.again.map(|again| again.and_then(inside));
            let earlier: Vec<_> = self
                .earlier
                .iter()
                .filter_map(|value| inside(value))
                .collect();
            Attribute {
                before: before.as_ref(),
                expected: expected.get(name),
                again: again.as_ref().map(Option::as_ref),
                actual: actual.get(name),
                earlier: earlier.iter().collect(),
            }
            .compare()
        });
        kinds.max()
    }
}

fn as_number(value: &Value) -> Option<f64> {
    value.get("N")?.as_str()?.parse().ok()
}

/// Returns the number of elements of a list or set.
fn length(value: &Value) -> Option<f64> {
    let elements = ["L", "SS", "NS", "BS"]
        .iter()
        .find_map(|kind| value.get(kind));
    let length = elements?.as_array()?.len();
    Some(f64::from(u32::try_from(length).unwrap_or(u32::MAX)))
}
