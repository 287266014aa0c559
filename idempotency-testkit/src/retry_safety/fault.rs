//! The faults that a check plays, and the points where it plays them.

use std::fmt;

/// What happens to the first delivery of an event at one point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum FaultKind {
    /// The process is killed before the request is applied, or while the function waits.
    CrashBefore,
    /// The process is killed after the request was applied, or after the response was returned.
    CrashAfter,
    /// The request is not applied, and its reply is an error.
    Refused,
    /// The request is not applied, and neither is any later one of this delivery to the same service. Each reply is an error.
    Outage,
    /// The request is applied, and its connection breaks before the reply.
    LostReply,
    /// The request is applied, and its reply never arrives.
    NoReply,
    /// The event is delivered a second time while the function runs.
    Duplicate,
    /// The process stands still until its lease has expired. Another process takes over, and then the first one goes on.
    Takeover,
}

impl FaultKind {
    /// Every fault, in the order of the columns of a report.
    pub const ALL: [Self; 8] = [
        Self::CrashBefore,
        Self::CrashAfter,
        Self::Refused,
        Self::Outage,
        Self::LostReply,
        Self::NoReply,
        Self::Duplicate,
        Self::Takeover,
    ];
}

/// Writes the name of the column.
impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::CrashBefore => "crash before",
            Self::CrashAfter => "crash after",
            Self::Refused => "refused",
            Self::Outage => "outage",
            Self::LostReply => "lost reply",
            Self::NoReply => "no reply",
            Self::Duplicate => "duplicate",
            Self::Takeover => "takeover",
        })
    }
}

/// A place in the run of a function.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Point {
    /// The function waits: the number of requests before, and the number of the wait since the last of them.
    Await { requests: usize, number: usize },
    /// A request. Holds the number of requests before, and what is requested, such as `PutItem idempotency`.
    Request { requests: usize, label: String },
    /// The response is returned.
    Response,
}

impl Point {
    /// Returns the faults that can happen here.
    pub(super) fn faults(&self) -> &'static [FaultKind] {
        match self {
            Self::Await { .. } => &[
                FaultKind::CrashBefore,
                FaultKind::Duplicate,
                FaultKind::Takeover,
            ],
            Self::Request { .. } => &FaultKind::ALL,
            Self::Response => &[FaultKind::CrashAfter],
        }
    }

    /// Returns true if both are the same place of a run, also if the request has another label there.
    pub(super) fn is_same_place(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Request { requests: a, .. }, Self::Request { requests: b, .. }) => a == b,
            _ => self == other,
        }
    }
}

/// Returns the texts of the points of a run: what a report calls them.
pub(super) fn labels(points: &[Point]) -> Vec<String> {
    let mut before: Option<&str> = None;
    let mut labels = Vec::with_capacity(points.len());
    for point in points {
        labels.push(match (point, before) {
            (Point::Request { label, .. }, _) => {
                before = Some(label);
                label.clone()
            }
            (Point::Await { number, .. }, None) => format!("await {number}, before any request"),
            (Point::Await { number, .. }, Some(before)) => format!("await {number} after {before}"),
            (Point::Response, _) => "the response".to_owned(),
        });
    }
    labels
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_await_is_called_by_the_request_before_it() {
        let points = [
            Point::Await {
                requests: 0,
                number: 1,
            },
            Point::Request {
                requests: 0,
                label: "PutItem idempotency".to_owned(),
            },
            Point::Await {
                requests: 1,
                number: 2,
            },
            Point::Response,
        ];
        assert_eq!(
            labels(&points),
            [
                "await 1, before any request",
                "PutItem idempotency",
                "await 2 after PutItem idempotency",
                "the response",
            ]
        );
    }

    #[test]
    fn a_request_is_found_again_by_its_place_and_not_by_its_label() {
        let request = |requests, label: &str| Point::Request {
            requests,
            label: label.to_owned(),
        };
        assert!(request(2, "PUT /orders/1").is_same_place(&request(2, "PUT /orders/2")));
        assert!(!request(2, "PUT /orders/1").is_same_place(&request(3, "PUT /orders/1")));
        assert!(!request(0, "GET /").is_same_place(&Point::Response));
    }
}
