//! Formats a record, as text and as JSON.

use std::fmt;

use anstyle::Style;
use idempotency_core::key::Json;
use idempotency_core::protocol::condition::claimable;
use idempotency_core::protocol::decision::{FREED, Trace, is_held, is_live};
use idempotency_core::protocol::policy::OnTimeout;
use idempotency_core::protocol::{RecordState, Undoing, response_of};
use idempotency_core::record::{
    Attribute, Data, Field, FieldValue, Record, RecordId, RecordedSteps, Status, StoredEvent,
};
use idempotency_core::time::EpochMillis;

use super::StoredRecord;
use crate::json::{self, Object, text};
use crate::terminal::{DOUBTFUL, GOOD, Lines, json_line, visible};
use crate::time::{rfc3339, with_distance};

/// A record, with what is needed to format it.
pub(super) struct RecordView<'a> {
    pub(super) id: &'a RecordId,
    pub(super) record: &'a Record,
    /// Why its response cannot be read, if the store says it.
    pub(super) unreadable: Option<&'a str>,
    pub(super) now: EpochMillis,
    /// True if the stored response and the results of steps are shown. They can contain personal data.
    pub(super) with_data: bool,
    /// What the record keeps of its event, if it is shown. It can contain personal data.
    pub(super) event: Option<&'a StoredEvent>,
}

impl<'a> RecordView<'a> {
    /// Returns the form without the response, the results of steps and the event.
    pub(super) fn of(id: &'a RecordId, found: &'a StoredRecord, now: EpochMillis) -> Self {
        Self {
            id,
            record: &found.record,
            unreadable: found.unreadable.as_deref(),
            now,
            with_data: false,
            event: None,
        }
    }
}

/// The state of a record now, by the clock of this machine: [`explained`](State::explained) says what each means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Live,
    NoLease,
    Held,
    HalfUndone,
    LeaseOver,
    Failed,
    Freed,
    Undoing,
    Completed,
    NoResponse,
    Expired,
    Unreadable,
}

impl State {
    pub(super) fn of(record: &Record, now: EpochMillis) -> Self {
        let has_lease = record.in_progress_expiration.value().is_some();
        match (record.status.value(), record.failure.value()) {
            (Some(Status::InProgress), _) if is_live(record, now) && has_lease => Self::Live,
            (Some(Status::InProgress), _) if is_live(record, now) => Self::NoLease,
            (Some(Status::InProgress), _) if is_held(record, now) => Self::Held,
            (Some(Status::InProgress), Some(failure)) if failure == FREED => Self::Freed,
            (Some(Status::InProgress), _) if record.failure.exists() => Self::Failed,
            (Some(Status::InProgress), _) => Self::LeaseOver,
            (Some(Status::Undoing), _) if Undoing::of(record).is_none() => Self::Unreadable,
            (Some(Status::Undoing), _) if is_live(record, now) => Self::Live,
            (Some(Status::Undoing), _) if is_held(record, now) => Self::HalfUndone,
            (Some(Status::Undoing), _) => Self::Undoing,
            _ if claimable(now, OnTimeout::Rerun).holds(Some(record)) => Self::Expired,
            (Some(Status::Completed), _) => match response_of(record) {
                RecordState::Replay => Self::Completed,
                RecordState::ResponseUnavailable => Self::NoResponse,
                _ => Self::Unreadable,
            },
            _ => Self::Unreadable,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::NoLease => "no_lease",
            Self::Held | Self::HalfUndone => "held",
            Self::LeaseOver => "lease_over",
            Self::Failed => "failed",
            Self::Freed => "freed",
            Self::Undoing => "undoing",
            Self::Completed => "completed",
            Self::NoResponse => "no_response",
            Self::Expired => "expired",
            Self::Unreadable => "unreadable",
        }
    }

    /// Returns the style of a state: good if duplicates have a response, doubtful if an operator should look at it.
    pub(super) fn style(self) -> Style {
        match self {
            Self::Completed => GOOD,
            Self::Held | Self::HalfUndone | Self::NoLease | Self::NoResponse | Self::Unreadable => {
                DOUBTFUL
            }
            Self::Live
            | Self::LeaseOver
            | Self::Failed
            | Self::Freed
            | Self::Undoing
            | Self::Expired => Style::new(),
        }
    }

    /// Explains the state in a sentence.
    pub(super) fn explained(self) -> &'static str {
        match self {
            Self::Live => {
                "a live claim: its run goes on, or was killed and its lease has not ended"
            }
            Self::NoLease => {
                "a claim without a lease that can be read: whether its call runs is unknown; calls are refused until its window \
                 ends, or an operator decides"
            }
            Self::Held => {
                "held: its run did not report its end; calls are refused until `idempotency resolve` decides"
            }
            Self::HalfUndone => {
                "held: its steps could not all be undone; calls are refused until `idempotency resolve` decides"
            }
            Self::LeaseOver => {
                "a claim, and its lease has expired: its run was killed, or goes on beyond its lease; the next call runs the handler, \
                 or is refused if the operation holds claims by now"
            }
            Self::Failed => {
                "its run failed, or its response was not stored: the next call runs the handler"
            }
            Self::Freed => {
                "an operator decided that its run had no effect: the next call runs the handler"
            }
            Self::Undoing => {
                "its steps are being undone: the next call goes on, and starts no other step, or is refused if its run was killed \
                 and the operation holds claims"
            }
            Self::Completed => "completed: duplicates get its response",
            Self::NoResponse => {
                "completed, and its response could not be stored: duplicates get an error (IdempotencyResponseUnavailable), and the \
                 handler does not run"
            }
            Self::Expired => "its window has expired: the next call runs the handler",
            Self::Unreadable => "unreadable: calls fail until it is evicted or expires",
        }
    }
}

impl RecordView<'_> {
    /// Returns the JSON form. Absent attributes are left out; unreadable ones are null.
    pub(super) fn to_json(&self) -> Object {
        let object = json::object()
            .bool("found", true)
            .text("key", self.id.as_str())
            .text("state", State::of(self.record, self.now).name());
        let attributes = Attribute::ALL.into_iter();
        let event = self.event;
        attributes
            .fold(object, |object, attribute| self.with(object, attribute))
            .with("data_unreadable", self.unreadable.map(text))
            .with("event", event.map(|event| text(event.as_str())))
            .with("event_is_whole", event.map(|it| Json::Bool(it.is_whole())))
    }

    /// Adds the members of one attribute.
    fn with(&self, object: Object, attribute: Attribute) -> Object {
        let name = attribute.default_name();
        let time = |object: Object, end: i64, unit: i64| {
            let millis = end.checked_mul(unit);
            let time = millis.and_then(rfc3339).map(text);
            object.count(name, end).with(&format!("{name}_time"), time)
        };
        match self.record.field(attribute) {
            Field::Absent => object,
            Field::Unreadable if attribute == Attribute::Data && !self.with_data => object,
            Field::Unreadable => object.with(name, Json::Null),
            Field::Value(value) => match value {
                FieldValue::Seconds(end) => time(object, end.get(), 1_000),
                FieldValue::Millis(end) => time(object, end.get(), 1),
                FieldValue::Text(it) if attribute == Attribute::Decision => {
                    object.with(name, decision_json(it))
                }
                FieldValue::Text(it) if attribute == Attribute::Undo => {
                    object.with(name, undo_json(it))
                }
                FieldValue::Text(it) => object.text(name, it),
                FieldValue::Data(data) => object
                    .count("data_bytes", data.as_str().len())
                    .with(name, self.with_data.then(|| text(data.as_str()))),
                FieldValue::Steps(steps) => object.with(name, steps_json(steps, self.with_data)),
                // It is shown as it was read by itself.
                FieldValue::Event(_) => object,
            },
        }
    }

    /// Returns the name of an attribute and its value in one line. `None` if it is absent.
    fn line(&self, attribute: Attribute) -> Option<(&'static str, String)> {
        let name = attribute.default_name();
        let value = match self.record.field(attribute) {
            Field::Absent => return None,
            Field::Unreadable => {
                let reason = self.unreadable.filter(|_| attribute == Attribute::Data);
                let why = reason.map(|reason| format!("present, but {reason}"));
                return Some((name, why.unwrap_or_else(|| UNREADABLE.to_owned())));
            }
            Field::Value(value) => value,
        };
        Some(match value {
            FieldValue::Seconds(end) => ("window ends", self.end(end.get(), 1_000, "s")),
            FieldValue::Millis(end) => ("lease ends", self.end(end.get(), 1, "ms")),
            FieldValue::Text(trace) if attribute == Attribute::Decision => {
                (name, self.decision(trace))
            }
            FieldValue::Text(text) if attribute == Attribute::Undo => (name, undo_line(text)),
            FieldValue::Text(text) => (name, text.to_owned()),
            FieldValue::Data(data) if self.with_data => (name, json_line(data.as_str())),
            FieldValue::Data(data) => {
                let bytes = data.as_str().len();
                (name, format!("{bytes} bytes; --show-data shows them"))
            }
            FieldValue::Steps(steps) => (name, steps_line(steps, self.with_data)),
            // It is shown as it was read by itself.
            FieldValue::Event(_) => return None,
        })
    }

    fn end(&self, value: i64, unit: i64, name: &str) -> String {
        let Some(end) = value.checked_mul(unit) else {
            return format!("{value} {name}");
        };
        format!("{}  ({value} {name})", with_distance(end, self.now))
    }

    /// Explains the trace of an operator's decision.
    fn decision(&self, trace: &str) -> String {
        let Some(trace) = Trace::from_json(trace) else {
            return UNREADABLE.to_owned();
        };
        let one = |trace: &Trace| {
            format!(
                "{} by {}, {}: {}",
                trace.verdict.as_str(),
                trace.by,
                with_distance(trace.at.get(), self.now),
                trace.reason,
            )
        };
        let replaced = trace
            .replaced
            .iter()
            .map(|earlier| format!("; it replaces {}", one(earlier)));
        format!("{}{}", one(&trace), replaced.collect::<String>())
    }
}

impl RecordView<'_> {
    /// Returns the name and the text of each line.
    fn lines(&self) -> impl Iterator<Item = (&'static str, String)> {
        let event = self.event.map(|event| {
            let name = if event.is_whole() {
                "event"
            } else {
                "event part"
            };
            (name, json_line(event.as_str()))
        });
        let mut attributes = Attribute::ALL;
        // It can be long.
        attributes.sort_by_key(|attribute| *attribute == Attribute::Data);
        let state = State::of(self.record, self.now).explained();
        let lines = [("key", self.id.to_string()), (STATE, state.to_owned())];
        let attributes = attributes.into_iter().filter_map(|it| self.line(it));
        lines.into_iter().chain(attributes).chain(event)
    }

    /// Returns the lines, with a style for the state.
    pub(super) fn styled(&self) -> Lines {
        let state = State::of(self.record, self.now).style();
        self.lines().fold(Lines::default(), |lines, (name, text)| {
            let style = if name == STATE { state } else { Style::new() };
            let lines = lines.with(format_args!("{name:<12} "));
            lines.with(Lines::styled(style, &visible(&text))).with('\n')
        })
    }
}

/// Writes one line for each attribute; absent ones are left out. Another program can have written each of them.
impl fmt::Display for RecordView<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lines()
            .try_for_each(|(name, text)| writeln!(f, "{name:<12} {}", visible(&text)))
    }
}

/// The name of the line with the state.
const STATE: &str = "state";

/// Returns the JSON form of the trace of an operator's decision: null if it cannot be read.
fn decision_json(trace: &str) -> Json {
    Trace::from_json(trace).map_or(Json::Null, trace_json)
}

fn trace_json(trace: Trace) -> Json {
    let replaced: Vec<Json> = trace.replaced.into_iter().map(trace_json).collect();
    let decision = json::object()
        .text("decided", trace.verdict.as_str())
        .text("by", trace.by)
        .text("reason", trace.reason)
        .count("at", trace.at.get())
        .with("at_time", rfc3339(trace.at.get()).map(text))
        .with(
            "replaced",
            (!replaced.is_empty()).then_some(Json::Array(replaced)),
        );
    decision.into()
}

/// Returns in one line which steps are undone and which are left.
fn undo_line(text: &str) -> String {
    let Some(undoing) = Undoing::from_json(text) else {
        return UNREADABLE.to_owned();
    };
    let names = |steps: &[String]| match steps {
        [] => "none".to_owned(),
        _ => steps.join(", "),
    };
    let (undone, left) = (names(&undoing.undone), names(&undoing.left));
    let failures = match undoing.failures {
        0 => String::new(),
        1 => "; failed in 1 run".to_owned(),
        failures => format!("; failed in {failures} runs"),
    };
    format!("undone: {undone}; left: {left}{failures}")
}

/// Returns the JSON form: null if it cannot be read.
fn undo_json(text: &str) -> Json {
    let Some(undoing) = Undoing::from_json(text) else {
        return Json::Null;
    };
    let names = |steps: Vec<String>| Json::Array(steps.into_iter().map(json::text).collect());
    let undoing = json::object()
        .with("undone", names(undoing.undone))
        .with("left", names(undoing.left))
        .count("failures", undoing.failures)
        .bool("held", undoing.held);
    undoing.into()
}

/// The text of an attribute that cannot be read.
const UNREADABLE: &str = "present, but of a type that cannot be read";

/// Returns the names of the steps in one line, each with the length of its result, or with the result itself.
fn steps_line(steps: &RecordedSteps, with_data: bool) -> String {
    if steps.is_empty() {
        return "none recorded".to_owned();
    }
    let named = steps.iter().map(|(name, result)| {
        let result = result.as_str();
        if with_data {
            format!("{name} = {}", json_line(result))
        } else {
            format!("{name} ({} bytes)", result.len())
        }
    });
    named.collect::<Vec<_>>().join(", ")
}

/// Returns the JSON form: an array of objects.
fn steps_json(steps: &RecordedSteps, with_data: bool) -> Json {
    let step = |(name, result): (&str, &Data)| {
        let result = result.as_str();
        let step = json::object()
            .text("name", name)
            .count("bytes", result.len())
            .with("result", with_data.then(|| text(result)));
        step.into()
    };
    Json::Array(steps.iter().map(step).collect())
}

#[cfg(test)]
mod tests {
    use idempotency_core::record::OwnerToken;
    use idempotency_core::time::EpochSeconds;

    use super::*;

    const NOW: EpochMillis = EpochMillis::new(1_700_000_000_000);

    fn record(status: Status, window: i64, lease: i64) -> Record {
        Record {
            status: Field::Value(status),
            expiration: Field::Value(EpochSeconds::new(window)),
            in_progress_expiration: Field::Value(EpochMillis::new(lease)),
            data: Field::Value(Data::new("\"s3cr3t\"")),
            ..Record::default()
        }
    }

    fn completed() -> StoredRecord {
        StoredRecord {
            record: record(Status::Completed, i64::MAX, 1),
            unreadable: None,
        }
    }

    fn canonical(object: Object) -> String {
        Json::from(object).to_canonical()
    }

    #[test]
    fn the_state_depends_on_status_lease_and_window() {
        use Status::{Completed, InProgress};
        let (early, late) = (1_600_000_000, 1_800_000_000);
        let other = Status::Other("PAUSED".to_owned());
        for (status, window, lease, state) in [
            (InProgress, late, late, State::Live),
            // The window of a claim has no effect while its lease runs.
            (InProgress, early, late, State::Live),
            (InProgress, late, early, State::LeaseOver),
            (Completed, late, early, State::Completed),
            (Completed, early, early, State::Expired),
            (other, late, late, State::Unreadable),
        ] {
            let record = record(status, window, lease * 1_000);
            assert_eq!(State::of(&record, NOW), state);
        }
        assert_eq!(State::of(&Record::default(), NOW), State::Unreadable);
        // What duplicates get of a completed record depends on its response.
        for (data, state) in [
            (Field::Absent, State::NoResponse),
            (Field::Unreadable, State::Unreadable),
            (Field::Value(Data::new("{")), State::Unreadable),
        ] {
            let record = Record {
                data,
                ..record(Completed, late, early)
            };
            assert_eq!(State::of(&record, NOW), state);
        }
        // Whether the call of a claim without a readable lease runs is unknown.
        let mut claim = record(InProgress, late, 0);
        claim.in_progress_expiration = Field::Unreadable;
        assert_eq!(State::of(&claim, NOW), State::NoLease);
        claim.in_progress_expiration = Field::Absent;
        assert_eq!(State::of(&claim, NOW), State::NoLease);
    }

    #[test]
    fn the_response_is_shown_only_on_request() {
        let (id, found) = (RecordId::new("a#b"), completed());
        let shown = |with_data| {
            let shown = RecordView {
                with_data,
                ..RecordView::of(&id, &found, NOW)
            };
            format!("{shown}{}", canonical(shown.to_json()))
        };
        assert!(!shown(false).contains("s3cr3t"), "{}", shown(false));
        assert_eq!(shown(true).matches("s3cr3t").count(), 2);
    }

    #[test]
    fn a_response_that_cannot_be_read_is_shown_with_the_reason() {
        let (id, mut found) = (RecordId::new("a#b"), completed());
        let why = "piece 2 of 3 of its response is missing";
        found.record.data = Field::Unreadable;
        found.unreadable = Some(why.to_owned());
        let shown = RecordView::of(&id, &found, NOW);
        let text = shown.to_string();
        let line = format!("data         present, but {why}\n");
        assert!(text.contains(&line), "{text}");
        let json = canonical(shown.to_json());
        let member = format!(r#""data_unreadable": "{why}""#);
        assert!(json.contains(&member), "{json}");
    }

    #[test]
    fn the_readme_shows_a_record_as_it_is_shown() {
        let id = RecordId::new("payments.app.handler#e31b8b84a9be62e9ae878d3fb2b80004");
        let record = Record {
            owner: Field::Value(OwnerToken::from_record(
                "0e4f5c0b6c2d4f7f9c3b0a5d7e8f9a1b".to_owned(),
            )),
            data: Field::Value(Data::new("{\"paid\": \"pay\"}")),
            ..record(Status::Completed, 1_795_244_600, 1_795_241_030_000)
        };
        let unreadable = None;
        let found = StoredRecord { record, unreadable };
        let now = EpochMillis::new(1_795_241_029_000);
        let shown = format!("{id}\n{}```", RecordView::of(&id, &found, now));
        let readme = include_str!("../../README.md");
        assert!(readme.contains(&shown), "{shown}");
    }

    fn steps(steps: &[(&str, &str)]) -> Field<RecordedSteps> {
        let steps = steps.iter();
        let steps = steps.map(|(name, result)| ((*name).to_owned(), Data::new(*result)));
        Field::Value(steps.collect())
    }

    /// Returns the line and the JSON form of a record that has only steps.
    fn shown(steps: &Field<RecordedSteps>, with_data: bool) -> (String, String) {
        let (id, mut found) = (RecordId::new("a#b"), completed());
        let steps = steps.clone();
        found.record = Record {
            steps,
            ..Record::default()
        };
        let view = RecordView {
            with_data,
            ..RecordView::of(&id, &found, NOW)
        };
        let line = view.line(Attribute::Steps).map(|(_, line)| line);
        let json = canonical(view.with(json::object(), Attribute::Steps));
        (line.unwrap_or_default(), json)
    }

    #[test]
    fn the_names_of_steps_are_shown_and_their_results_only_on_request() {
        let two = steps(&[("charge", "\"s3cr3t\""), ("reserve", "7")]);
        let (line, json) = shown(&two, false);
        assert_eq!(line, "charge (8 bytes), reserve (1 bytes)");
        assert!(json.contains(r#""name": "reserve""#), "{json}");
        assert!(!json.contains("s3cr3t"), "{json}");
        let (line, json) = shown(&two, true);
        assert_eq!(line, "charge = \"s3cr3t\", reserve = 7");
        assert!(json.contains("s3cr3t"), "{json}");
    }

    #[test]
    fn an_undoing_shows_what_is_undone_and_left_and_whether_an_operator_decides() {
        let (id, mut found) = (RecordId::new("a#b"), completed());
        for (undo, lease, state, line) in [
            (
                r#"{"left":["b","a"],"undone":[]}"#,
                i64::MAX,
                State::Live,
                "undone: none; left: b, a",
            ),
            // Without a failure its run was killed.
            (
                r#"{"left":["a"],"undone":["b"]}"#,
                1,
                State::Undoing,
                "undone: b; left: a",
            ),
            (
                r#"{"failures":1,"left":["a"],"undone":["b"]}"#,
                1,
                State::Undoing,
                "undone: b; left: a; failed in 1 run",
            ),
            (
                r#"{"failures":3,"held":true,"left":["a"],"undone":["b"]}"#,
                1,
                State::HalfUndone,
                "undone: b; left: a; failed in 3 runs",
            ),
            ("{}", 1, State::Unreadable, UNREADABLE),
        ] {
            found.record = Record {
                undo: Field::Value(undo.to_owned()),
                failure: undo
                    .contains("failures")
                    .then(|| "the undo of `a` failed: E".to_owned())
                    .into(),
                ..record(Status::Undoing, i64::MAX, lease)
            };
            assert_eq!(State::of(&found.record, NOW), state);
            let view = RecordView::of(&id, &found, NOW);
            let shown = view.line(Attribute::Undo).map(|(_, shown)| shown);
            assert_eq!(shown.as_deref(), Some(line));
        }
        let json = |text| canonical(json::object().with("undo", undo_json(text)));
        let held = json(r#"{"failures":3,"held":true,"left":["a"],"undone":["b"]}"#);
        let members = r#""undo": {"failures": 3, "held": true, "left": ["a"], "undone": ["b"]}"#;
        assert_eq!(held, format!("{{{members}}}"));
        assert_eq!(json("{}"), r#"{"undo": null}"#);
    }

    #[test]
    fn a_claim_without_a_recorded_step_differs_from_one_that_cannot_be_read() {
        let none = ("none recorded".into(), r#"{"steps": []}"#.into());
        assert_eq!(shown(&steps(&[]), false), none);
        let (line, json) = shown(&Field::Unreadable, false);
        assert!(line.contains("cannot be read"), "{line}");
        assert_eq!(json, r#"{"steps": null}"#);
        let absent = shown(&Field::Absent, true);
        assert_eq!(absent, (String::new(), "{}".to_owned()));
    }
}
