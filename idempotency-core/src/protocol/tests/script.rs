//! The language of the tables: what a row says, and the only place that makes inputs and shows effects.
//!
//! A line without an indent names the rows that follow it, as a sentence. A row is `terms | script`; without `terms |`, the call has
//! the terms of [`call`]. A script is a list of parts, separated by `; `, and a part is `input, input -> effect`: after these inputs the
//! attempt asks for this effect. Instead of an effect a part can show what the attempt answers to a question:
//! `input, limit? -> 2800`. A row may go on in lines with a deeper indent.
//! A line that starts with `#` is a comment.
//!
//! - Times are milliseconds after [`NOW`], and seconds after its whole second for the end of a window. `@9000` sets the time of the
//!   inputs that follow it.
//! - `300x(a & b)` repeats inputs.
//! - A record is one of `mine`, `other`, `done`, `held`, `undoing` and `blank` (see [`base`]) with changes: `done[data=42 owner=-]`. `-` is an absent
//!   attribute, and `?` one of a wrong type. `262144*` is a response of so many bytes.
//! - A reply to a write is `applied`, `met` with the record that failed the condition, `rejected`, or `fails` with a kind. `applied` says
//!   that a claim replaced nothing; `applied-blind` does not say it. `met-late`, `rejected-late` and `lost` are the same after a send that
//!   may have been applied.
//! - `leave Timeout` is the release that leaves this failure, and a window, in the record of a claim that was made at [`NOW`]. If the clock
//!   was set back since then, the window begins at [`NOW`], and the lease has ended by the new time.
//! - `ends` gives the end of the handler, `stages` the same with staged writes, `commits` with an open transaction, and `misses` the same
//!   after a write that was refused when it was staged. `recorded:`, `step-too-large:`, `not-recorded:` and `claim-lost:` before it tell
//!   how its steps ended. `window=60000` before it is the window that the handler asked for. `decides b+a/c` before it says that the handler
//!   decided to undo its steps `b` and `a`, and did not ask for the recorded step `c`; `collects` says that an earlier run decided.

use std::fmt::{Debug, Write as _};
use std::ops::ControlFlow;
use std::time::Duration;

use super::super::condition::{Condition, Operand, claimable, held_by, replaceable, undone_by};
use super::super::policy::{Lookup, OnError, OnInProgress, OnStoreError, OnTimeout, Steps};
use super::super::*;
use super::{NOW, another, call, claim_of, completed, me, now_plus, now_plus_seconds};
use crate::example::shared::{check_each, check_rows, same};
use crate::record::{Attribute, Data, Field, FieldValue, Record, RecordedSteps, Status};

/// Plays each row of the table with a call, and panics with the rows that do not hold.
pub(crate) fn check(table: &str) {
    check_rows(table, |row| {
        let (words, script) = with_terms(row);
        let (attempt, mut effect) = Attempt::begin(terms(words));
        let (mut attempt, mut now) = (Some(attempt), NOW);
        play(script, |text| {
            let (first, about) = text.split_once(' ').unwrap_or((text, ""));
            if let Some(at) = text.strip_prefix('@') {
                now = time(at);
            } else if let Some(question) = first.strip_suffix('?') {
                return ask(attempt.as_ref().expect("it plays"), now, question, about);
            } else {
                let claims = matches!(effect, Effect::Write(Write::Put(_), _));
                let before = attempt.take().expect("it plays");
                let (after, next) = before.step(now, input(text, claims));
                (attempt, effect) = (Some(after), next);
            }
            show(&effect, now)
        })
    });
}

/// Checks what each record of the table means to its call, and panics with the rows that do not hold.
pub(crate) fn check_records(table: &str, of: impl Fn(Option<&Record>, &CallTerms) -> String) {
    check_each(table, |row| {
        let (words, record) = with_terms(row);
        of(self::record(record).as_ref(), &terms(words))
    });
}

/// Plays one script: `take` takes an input, and returns what a part that ends with it must show. Returns the first part that does not
/// hold.
pub(crate) fn play(script: &str, mut take: impl FnMut(&str) -> String) -> Result<(), String> {
    for part in script.split("; ") {
        let (inputs, expected) = part.split_once(" -> ").expect("a part has an effect");
        let shown = inputs.split(", ").flat_map(repeated).map(&mut take).last();
        same(&shown.unwrap_or_default(), expected)
            .map_err(|differs| format!("after `{inputs}` {differs}"))?;
    }
    Ok(())
}

/// Plays the replies to the writes of this machine. `limit?` shows how long the next write may take.
pub(crate) fn play_replies<W>(script: &str, machine: &mut W) -> Result<(), String>
where
    W: Resend<End: Debug>,
{
    let (mut now, mut has_ended) = (NOW, false);
    play(script, |text| {
        if let Some(at) = text.strip_prefix('@') {
            now = time(at);
            return String::new();
        }
        if text == "limit?" {
            return machine.time_limit(now).as_millis().to_string();
        }
        assert!(!has_ended, "`{text}` follows the end");
        match machine.step(now, reply(text)) {
            ControlFlow::Break(end) => {
                has_ended = true;
                format!("{end:?}")
            }
            ControlFlow::Continue(pause) => format!("pause {}", pause.as_millis()),
        }
    })
}

/// Returns the terms of a row, and the rest of it.
fn with_terms(row: &str) -> (&str, &str) {
    row.split_once(" | ").unwrap_or(("", row))
}

fn repeated(text: &str) -> Vec<&str> {
    let Some((times, inputs)) = text
        .strip_suffix(')')
        .and_then(|text| text.split_once("x("))
    else {
        return vec![text];
    };
    match times.parse() {
        Ok(times) => inputs.split(" & ").collect::<Vec<_>>().repeat(times),
        Err(_) => vec![text],
    }
}

pub(crate) fn number(text: &str) -> i64 {
    text.parse()
        .unwrap_or_else(|_| panic!("`{text}` is no number"))
}

/// Returns the time that is this many milliseconds after [`NOW`].
pub(crate) fn time(text: &str) -> EpochMillis {
    now_plus(number(text))
}

/// Returns the value that this text stands for: a space in it is written as `_`.
fn text(value: &str) -> String {
    value.replace('_', " ")
}

/// Returns the response that this text stands for.
pub(crate) fn data(text: &str) -> Data {
    match text.strip_suffix('*') {
        Some(bytes) => Data::new("1".repeat(bytes.parse().expect("a length"))),
        None => Data::new(text),
    }
}

/// Returns the terms that differ from [`call`] in these words.
fn terms(words: &str) -> CallTerms {
    let mut call = call();
    let policy = &mut call.policy;
    let (mut length, mut renewed) = (Lease::DEFAULT_LENGTH, None);
    for word in words.split_whitespace() {
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        let millis = || Duration::from_millis(value.parse().expect("a duration"));
        match name {
            "hold" => policy.on_timeout = OnTimeout::Hold,
            "wait" => policy.on_in_progress = OnInProgress::Wait,
            "record" => policy.on_error = OnError::Record,
            "unprotected" => policy.on_store_error = OnStoreError::RunUnprotected,
            "read-first" => policy.lookup = Lookup::ReadFirst,
            "breaker" => policy.circuit_breaker = true,
            "keep" => policy.steps = Steps::Keep,
            "forget" => policy.steps = Steps::Forget,
            "window" => policy.expires_after = millis(),
            "lease" => length = millis(),
            "renew" => renewed = Some(millis()),
            "store-timeout" => policy.store_timeout = millis(),
            "deadline" => call.deadline = (value != "-").then(|| time(value)),
            "validation" => call.validation = Some(value.to_owned()),
            "operation" => call.operation = Some(value.to_owned()),
            "event" => call.event = StoredEvent::all(value),
            _ => panic!("`{word}` is no term"),
        }
    }
    let without_deadline = renewed.map_or(Lease::For(length), |length| Lease::Renewed {
        length,
        at_most: Lease::DEFAULT_AT_MOST,
    });
    call.lease = call.deadline.map_or(without_deadline, Lease::Until);
    call
}

/// Returns the reply to a write that is no claim.
pub(crate) fn reply(text: &str) -> WriteResult {
    match input(text, false) {
        Input::Written(result) => result,
        _ => panic!("`{text}` is no reply"),
    }
}

/// Returns the input with this text. `claims` is true if the input is the reply to a claim.
fn input(text: &str, claims: bool) -> Input {
    let (name, rest) = text.split_once(' ').unwrap_or((text, ""));
    let applied = |replaced, maybe_again| WriteResult::Applied {
        replaced,
        maybe_again,
    };
    let first = match claims {
        true => Replaced::Nothing,
        false => Replaced::Unknown,
    };
    let met = |maybe_applied| WriteResult::ConditionFailed {
        existing: record(rest),
        maybe_applied,
    };
    let failed = |maybe_applied| WriteResult::Failed {
        maybe_applied,
        kind: failure(rest),
    };
    Input::Written(match name {
        "applied" => applied(first, false),
        "applied-blind" => applied(Replaced::Unknown, false),
        "applied-again" => applied(first, true),
        "applied-over" => applied(record(rest).into(), false),
        "met" => met(false),
        "met-late" => met(true),
        "rejected" | "rejected-late" => WriteResult::Rejected {
            maybe_applied: name == "rejected-late",
        },
        "fails" => failed(false),
        "lost" => failed(true),
        "miss" => return Input::Local(None),
        "cached" => return Input::Local(record(rest)),
        "leader" => return Input::LeaderProgress(in_flight(rest)),
        "leader-done" => return Input::LeaderDone(record(rest)),
        "admitted" => return Input::Circuit(Admission::Admitted),
        "open" => {
            let until = time(rest);
            return Input::Circuit(Admission::Open { until });
        }
        "reads" => return Input::Read(record(rest)),
        "read-fails" => return Input::ReadFailed,
        "paused" => return Input::Paused,
        "ends" | "stages" | "commits" | "misses" => return handler(rest, name),
        "decides" | "collects" => return decided(rest, name == "decides"),
        "undone" => return Input::Undone(UndoEnd::Undone),
        "undo-fails" => return Input::Undone(UndoEnd::Failed(rest.to_owned())),
        "undo-panics" => return Input::Undone(UndoEnd::Panicked),
        _ => panic!("`{text}` is no input"),
    })
}

fn failure(name: &str) -> WriteErrorKind {
    match name {
        "transient" => WriteErrorKind::Transient,
        "conflict" => WriteErrorKind::Conflict,
        "credentials" => WriteErrorKind::Credentials,
        "too-large" => WriteErrorKind::TooLarge,
        "refused" => WriteErrorKind::Refused,
        "permanent" => WriteErrorKind::Permanent,
        _ => panic!("`{name}` is no failure of a write"),
    }
}

/// Returns the end of a handler, and of its steps.
fn handler(end: &str, how: &str) -> Input {
    let (steps, end) = match end.split_once(':') {
        Some((steps, end)) => (Some(steps), end),
        None => (None, end),
    };
    let steps = steps.map(step_end);
    let asks = end.strip_prefix("window=");
    let (window, end) = match asks.and_then(|asks| asks.split_once(' ')) {
        Some((window, end)) => (Some(NOW.until(time(window))), end),
        None => (None, end),
    };
    let (name, value) = end.split_once(' ').unwrap_or((end, ""));
    let result = match name {
        "returned" => HandlerResult::Returned(data(value)),
        "failed" => HandlerResult::Failed(value.to_owned()),
        "unreported" => HandlerResult::Unreported(value.to_owned()),
        "panicked" => HandlerResult::Panicked,
        "not-started" => HandlerResult::NotStarted,
        "not-stored" => HandlerResult::NotStored,
        "unstorable" => HandlerResult::Unstorable,
        "not-serializable" => HandlerResult::NotSerializable,
        "not-deserializable" => HandlerResult::NotDeserializable,
        _ => panic!("`{end}` is no end of a handler"),
    };
    Input::HandlerEnded(HandlerEnd {
        result,
        steps,
        staged: match how {
            "stages" => Some(Commits::Again),
            "commits" => Some(Commits::Once),
            _ => None,
        },
        refused: how == "misses",
        window,
        undo: None,
    })
}

/// Returns the end of a handler with the steps that it can undo, those that it did not ask for after a `/`, and how it ended.
fn decided(text: &str, decided: bool) -> Input {
    let (steps, end) = text.split_once(' ').expect("steps and an end");
    let (undoable, unreached) = steps.split_once('/').unwrap_or((steps, ""));
    let names = |text: &str| {
        let names = text.split('+').filter(|name| !matches!(*name, "" | "-"));
        names.map(str::to_owned).collect()
    };
    let (how, end) = match end.split_once(' ') {
        Some((how @ ("stages" | "commits" | "misses"), end)) => (how, end),
        _ => ("", end),
    };
    let Input::HandlerEnded(end) = handler(end, how) else {
        panic!("it is the end of a handler");
    };
    let undo = Some(Box::new(HandlerUndo {
        decided,
        undoable: names(undoable),
        unreached: names(unreached),
    }));
    Input::HandlerEnded(HandlerEnd { undo, ..end })
}

pub(crate) fn step_end(text: &str) -> StepEnd {
    match text {
        "recorded" => StepEnd::Recorded,
        "step-too-large" => StepEnd::TooLarge,
        "not-recorded" => StepEnd::NotRecorded,
        "claim-lost" => StepEnd::ClaimLost,
        _ => panic!("`{text}` is no end of steps"),
    }
}

/// Returns the progress of a leader: `running 20000`, or `waiting round 1 for 60000 20000`.
pub(crate) fn in_flight(text: &str) -> InFlight {
    let (stage, until) = text.rsplit_once(' ').expect("a stage and its end");
    let words: Vec<&str> = stage.split(' ').collect();
    let stage = match words[..] {
        ["claiming"] => Stage::Claiming,
        ["running"] => Stage::Running,
        ["storing"] => Stage::Storing,
        ["waiting", "round", round, "for", until] => Stage::Waiting {
            until: Some(time(until)),
            round: round.parse().expect("a round"),
        },
        _ => panic!("`{text}` is no progress"),
    };
    let until = time(until);
    InFlight { stage, until }
}

/// Returns the record with this name, to which a text can add changes.
fn base(name: &str) -> Record {
    match name {
        "mine" => claim_of(me(), now_plus(30_000)),
        "other" => claim_of(another(), now_plus(-1)),
        "done" => completed("7"),
        "held" => {
            let held = "mine[expiration=300000000 lease=-1 validation=v operation=shop::charge]";
            record(held).expect("it is a record")
        }
        "undoing" => {
            let undo = r#"undo={"left":["b","a"],"undone":[]}"#;
            let text =
                format!("other[expiration=315360030 status=UNDOING data=9 steps=a+b {undo}]");
            record(&text).expect("it is a record")
        }
        "blank" => Record::default(),
        _ => panic!("`{name}` is no record"),
    }
}

pub(crate) fn record(text: &str) -> Option<Record> {
    if matches!(text, "" | "none") {
        return None;
    }
    let changes = text.strip_suffix(']').and_then(|text| text.split_once('['));
    let (name, changes) = changes.unwrap_or((text, ""));
    let mut record = base(name);
    for change in changes.split_whitespace() {
        let (attribute, value) = change.split_once('=').expect("attribute=value");
        match attribute {
            "expiration" => {
                record.expiration = field(value, |value| now_plus_seconds(number(value)))
            }
            "lease" => record.in_progress_expiration = field(value, time),
            "status" => {
                record.status = field(value, |value| match value {
                    "completed" => Status::Completed,
                    "INPROGRESS" => Status::InProgress,
                    "UNDOING" => Status::Undoing,
                    other => Status::Other(other.to_owned()),
                })
            }
            "data" => record.data = field(value, |value| data(&self::text(value))),
            "validation" => record.validation = field(value, str::to_owned),
            "owner" => {
                record.owner = field(value, |value| if value == "me" { me() } else { another() })
            }
            "failure" => record.failure = field(value, self::text),
            "operation" => record.operation = field(value, str::to_owned),
            "undo" => record.undo = field(value, str::to_owned),
            "event" => {
                record.event = field(value, |value| StoredEvent::all(value).expect("an event"))
            }
            "steps" => {
                record.steps = field(value, |value| {
                    let names = value.split('+').filter(|name| !name.is_empty());
                    names
                        .map(|name| (name.to_owned(), Data::new("1")))
                        .collect()
                })
            }
            _ => panic!("`{change}` is no change of a record"),
        }
    }
    Some(record)
}

fn field<'a, T>(value: &'a str, read: impl Fn(&'a str) -> T) -> Field<T> {
    match value {
        "-" => Field::Absent,
        "?" => Field::Unreadable,
        _ => Field::Value(read(value)),
    }
}

/// Answers a question about the attempt.
fn ask(attempt: &Attempt, now: EpochMillis, question: &str, about: &str) -> String {
    match question {
        "limit" => attempt.time_limit(now).as_millis().to_string(),
        "progress" => attempt.in_flight().map_or("none".to_owned(), progress),
        "run" => attempt.run().map_or("none".to_owned(), show_run),
        "steps" => attempt.steps().map_or("none".to_owned(), steps),
        "undoes" => attempt.undoes().to_string(),
        "store" => format!("{:?}", attempt.store_health(&input(about, false))),
        "renews" => attempt.renewal().is_some().to_string(),
        "outlives" => attempt
            .outlives_lease(now, &input(about, false))
            .to_string(),
        _ => panic!("`{question}` is no question"),
    }
}

pub(crate) fn show_run(run: Run) -> String {
    match run {
        Run::Rerun { lease_ended } => {
            let ended = lease_ended.map_or("none".to_owned(), millis);
            format!("rerun after {ended}")
        }
        run => format!("{run:?}"),
    }
}

pub(crate) fn progress(progress: InFlight) -> String {
    let until = millis(progress.until);
    match progress.stage {
        Stage::Claiming => format!("claiming {until}"),
        Stage::Running => format!("running {until}"),
        Stage::Storing => format!("storing {until}"),
        Stage::Waiting { until: end, round } => {
            let end = end.map_or("none".to_owned(), millis);
            format!("waiting round {round} for {end} {until}")
        }
    }
}

pub(crate) fn millis(time: EpochMillis) -> String {
    (time.get() - NOW.get()).to_string()
}

/// Shows all of an effect that a step at `now` asks for.
fn show(effect: &Effect, now: EpochMillis) -> String {
    match effect {
        Effect::CheckLocal => "look".to_owned(),
        Effect::CheckInFlight => "look for a leader".to_owned(),
        Effect::AwaitLeader(time) => format!("follow {}", time.as_millis()),
        Effect::CheckCircuit(time) => format!("ask the breaker for {}", time.as_millis()),
        Effect::Write(write, condition) => show_write(write, condition, now),
        Effect::Transact(write, condition) => {
            format!("transact {}", show_write(write, condition, now))
        }
        Effect::Read(Consistency::Strong) => "read".to_owned(),
        Effect::Read(Consistency::Eventual) => "read eventual".to_owned(),
        Effect::Pause(time) => format!("pause {}", time.as_millis()),
        Effect::Undo(step) => format!("undo {step}"),
        Effect::Run => "run".to_owned(),
        Effect::RunUnprotected {
            maybe_claimed: false,
        } => "run unprotected".to_owned(),
        Effect::RunUnprotected {
            maybe_claimed: true,
        } => "run maybe claimed".to_owned(),
        Effect::Finish(resolution) => show_end(resolution),
    }
}

pub(crate) fn show_write(write: &Write, condition: &Condition, now: EpochMillis) -> String {
    let condition = show_condition(condition, now);
    match write {
        Write::Put(record) => format!("put {} if {condition}", show_record(record)),
        Write::Update(change) if is_failure_left(change, &condition, now) => {
            let failure = change.set.failure.value().map_or("", String::as_str);
            format!("leave {}", failure.replace(' ', "_"))
        }
        Write::Update(change) => {
            let set = show_changes(&change.set, &base("blank")).join(" ");
            let removed: Vec<_> = change.remove.iter().map(|it| attribute(*it)).collect();
            let removed = match removed[..] {
                [] => String::new(),
                _ => format!(" without {}", removed.join("+")),
            };
            format!("update {set}{removed} if {condition}")
        }
        Write::Delete => format!("delete if {condition}"),
        Write::Step { name, result } => format!("step {name}={} if {condition}", result.as_str()),
    }
}

/// Returns true if this is the release that leaves a failure in the record of a claim that was made at [`NOW`].
fn is_failure_left(change: &Change, condition: &str, now: EpochMillis) -> bool {
    let window = Duration::from_secs(3_600);
    let left = Record {
        expiration: Field::Value(now.max(NOW).floor_to_seconds().plus(window)),
        in_progress_expiration: Field::Value(EpochMillis::new(now.min(NOW).get() - 1)),
        failure: change.set.failure.clone(),
        ..Record::default()
    };
    let has_failure = change.set.failure.value().is_some();
    has_failure && change.set == left && change.remove == [Attribute::Owner] && condition == "mine"
}

/// Shows what the caller gets, and after it the ends of the claim and of the staged writes.
fn show_end(end: &CallEnd) -> String {
    let mut shown = match &end.resolution {
        Resolution::Own(None) => "own".to_owned(),
        Resolution::Own(Some(record)) => format!("own, stored {}", show_record(record)),
        Resolution::Replay { record, source } => {
            format!("replay {} from {source:?}", show_record(record))
        }
        Resolution::Refuse(Refusal { kind, detail }) => match detail {
            None => format!("refuse {kind:?}"),
            Some(RefusalDetail::LeaseEnd(end)) => format!("refuse {kind:?} until {}", millis(*end)),
            Some(RefusalDetail::CircuitOpen(end)) => {
                format!(
                    "refuse {kind:?} with the circuit open until {}",
                    millis(*end)
                )
            }
            Some(RefusalDetail::Defect(defect)) => format!("refuse {kind:?} because {defect}"),
            Some(RefusalDetail::NotUndone(why)) => format!("refuse {kind:?} because {why}"),
            Some(detail) => format!("refuse {kind:?} {detail:?}"),
        },
    };
    if let Some(claim) = end.claim {
        let _ = write!(shown, ", claim {}", claim.name());
    }
    if let Some(staged) = end.staged {
        let _ = write!(shown, ", writes {}", staged.name());
    }
    shown
}

fn show_condition(condition: &Condition, now: EpochMillis) -> String {
    let known = [
        ("claimable", claimable(now, OnTimeout::Rerun)),
        ("claimable-under-hold", claimable(now, OnTimeout::Hold)),
        ("replaceable", replaceable(now, OnTimeout::Rerun)),
        ("replaceable-under-hold", replaceable(now, OnTimeout::Hold)),
        ("mine", held_by(&me())),
        ("undoing-mine", undone_by(&me(), None)),
    ];
    if let Some((name, _)) = known.iter().find(|(_, known)| known == condition) {
        return (*name).to_owned();
    }
    let all = |conditions: &[Condition], between| {
        let shown: Vec<_> = conditions
            .iter()
            .map(|it| show_condition(it, now))
            .collect();
        shown.join(between)
    };
    match condition {
        Condition::NoRecord => "no-record".to_owned(),
        Condition::Exists(it) => format!("has {}", attribute(*it)),
        Condition::Missing(it) => format!("no {}", attribute(*it)),
        Condition::Equals(it, value) => format!("{}={}", attribute(*it), operand(value)),
        Condition::Differs(it, value) => format!("{}!={}", attribute(*it), operand(value)),
        Condition::Below(it, value) => format!("{}<{}", attribute(*it), operand(value)),
        Condition::All(conditions) => all(conditions, " & "),
        Condition::Any(conditions) => format!("({})", all(conditions, " or ")),
    }
}

fn attribute(attribute: Attribute) -> &'static str {
    match attribute {
        Attribute::InProgressExpiration => "lease",
        attribute => attribute.default_name(),
    }
}

fn operand(operand: &Operand) -> String {
    match operand {
        Operand::Text(text) => owner(&OwnerToken::from_record(text.clone().into_owned())),
        Operand::Seconds(time) => (time.get() - now_plus_seconds(0).get()).to_string(),
        Operand::Millis(time) => millis(*time),
    }
}

fn owner(owner: &OwnerToken) -> String {
    match owner {
        owner if *owner == me() => "me".to_owned(),
        owner if *owner == another() => "another".to_owned(),
        owner => owner.as_str().to_owned(),
    }
}

/// Shows a record by the base from which it differs least.
fn show_record(record: &Record) -> String {
    let names = ["mine", "other", "done", "blank"].into_iter();
    let texts = names.map(|name| (name, show_changes(record, &base(name))));
    let least = texts.min_by_key(|(_, changes)| changes.len());
    let (name, changes) = least.expect("there are four");
    match changes[..] {
        [] => name.to_owned(),
        _ => format!("{name}[{}]", changes.join(" ")),
    }
}

/// Shows each attribute that differs.
pub(crate) fn show_changes(record: &Record, base: &Record) -> Vec<String> {
    let (shown, base) = (attributes(record), attributes(base));
    let differs = shown
        .into_iter()
        .zip(base)
        .filter(|(one, other)| one != other);
    differs
        .map(|((name, value), _)| format!("{name}={value}"))
        .collect()
}

fn attributes(record: &Record) -> [(&'static str, String); Attribute::ALL.len()] {
    Attribute::ALL.map(|attribute| {
        let shown = match record.field(attribute) {
            Field::Absent => "-".to_owned(),
            Field::Unreadable => "?".to_owned(),
            Field::Value(value) => show_value(attribute, value),
        };
        (self::attribute(attribute), shown)
    })
}

fn show_value(attribute: Attribute, value: FieldValue<'_>) -> String {
    match value {
        FieldValue::Seconds(at) => (at.get() - now_plus_seconds(0).get()).to_string(),
        FieldValue::Millis(at) => millis(at),
        FieldValue::Text(text) if attribute == Attribute::Status => {
            let status = Status::from_record(text.to_owned());
            format!("{status:?}").to_lowercase()
        }
        FieldValue::Text(text) if attribute == Attribute::Failure => text.replace(' ', "_"),
        FieldValue::Text(text) => owner(&OwnerToken::from_record(text.to_owned())),
        FieldValue::Data(data) => match data.as_str() {
            long if long.len() > 1_000 => format!("{}*", long.len()),
            short => short.to_owned(),
        },
        FieldValue::Steps(steps) => self::steps(steps),
        FieldValue::Event(event) => event.stored().to_owned(),
    }
}

/// Shows the names of steps, and each result that is not `1`.
fn steps(steps: &RecordedSteps) -> String {
    let shown = steps.iter().map(|(name, result)| match result.as_str() {
        "1" => name.to_owned(),
        result => format!("{name}:{result}"),
    });
    shown.collect::<Vec<_>>().join("+")
}
