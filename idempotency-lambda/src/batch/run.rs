//! Runs a batch: starts its records in their order, and makes the partial batch response.

use std::any::type_name;
use std::collections::{HashSet, VecDeque};
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use idempotency_core::engine::{Codec, Errors};
use idempotency_core::error::{Error, ErrorKind};
use idempotency_core::event::refused;
use idempotency_core::operation::Call;
use idempotency_core::outcome::OutcomeKind;
use idempotency_core::protocol::policy::Steps;
use idempotency_core::record::RecordId;
use idempotency_expression::event_type_in;
use lambda_runtime::LambdaEvent;

use super::body::{Text, Undecodable};
use super::duplicates::{Duplicates, Turn};
use super::plan::Plan;
use super::report::Report;
use super::reserve::{RecordStart, Reserve};
use super::settings::{Batch, KeyFrom};
use super::source::{EventSource, FromRecord};
use super::verdict::{CallError, Done, ErrorNaming, Verdict, Why, catch, catch_call};
use crate::invocation::{Deadline, InScope, ScopeChange};
use crate::operation::{IdentifiedCall, Operation};

/// How many records of a source without an order run at a time.
const UNORDERED: usize = 10;

/// A record whose body is read and whose call is identified.
struct Ready<A> {
    call: IdentifiedCall,
    argument: A,
}

/// How a record becomes the handler's argument. It is a value and not a trait bound, so that a type that does not fit is one error of the
/// compiler, at the type.
pub struct Reader<S: EventSource, A> {
    /// The name of a type of `aws_lambda_events` that is no body, if the argument is or holds one.
    event_type: Option<&'static str>,
    read: fn(S::Record) -> Result<A, Undecodable>,
    identify: fn(&A, &Operation, Deadline) -> Result<IdentifiedCall, Error>,
}

impl<S: EventSource, A: FromRecord<S>> Reader<S, A> {
    pub(crate) fn new() -> Self {
        Self {
            event_type: event_type_in(type_name::<A>()),
            read: A::from_record,
            identify: A::identify,
        }
    }
}

impl<S: EventSource, A> Reader<S, A> {
    /// Refuses an argument of a type that each JSON object can be read as, with empty fields.
    ///
    /// # Errors
    ///
    /// If the argument is a whole event, or a record as the event has it.
    fn check(&self, operation: &Operation) -> Result<(), Error> {
        let Some(name) = self.event_type else {
            return Ok(());
        };
        let detail = format!(
            "the function of one record takes a `{name}`, which is the event or a record of it: the body of a record would be read as \
             one with empty fields; take a type of your own for the body, or `batch::Message<T>` (SQS) or `batch::DataRecord<T>` \
             (Kinesis) for the whole record"
        );
        let error = Error::new(ErrorKind::Configuration, operation.key_prefix());
        Err(error.with_detail(detail))
    }
}

/// The user's function of one record.
pub(crate) struct Function<R, E, F> {
    pub(crate) codec: Codec<R>,
    pub(crate) handler: F,
    /// Returns an error with the name under which it is logged.
    pub(crate) named: ErrorNaming<E>,
}

/// Runs the function for each record of an event.
///
/// # Errors
///
/// If the batch cannot be handled at all. No handler has run.
pub(crate) async fn run_batch<S, A, R, E, F, Fut>(
    batch: Batch,
    event: LambdaEvent<S>,
    reader: Reader<S, A>,
    function: Function<R, E, F>,
) -> Result<S::Response, Error>
where
    S: EventSource,
    F: Fn(A, Call) -> Fut,
    Fut: Future<Output = Result<R, E>>,
{
    // The metrics of all calls of a batch are written together, also if the function does not start with `run`.
    let change = ScopeChange::of_context(&event.context);
    let batch = Box::pin(async move {
        let LambdaEvent { payload, context } = event;
        let keying = Keying::of(&batch).map_err(refused)?;
        let operation = &batch.operation;
        reader.check(operation).map_err(refused)?;
        let records = payload.records();
        let identifiers = identifiers::<S>(operation, &records).map_err(refused)?;
        let deadline = Deadline::from(&context);
        let positions: Vec<_> = records
            .iter()
            .map(|record| S::position(record, batch.order))
            .collect();
        let is_ordered = positions.iter().any(|position| position.group.is_some());
        let concurrency = batch
            .concurrency
            .unwrap_or(if is_ordered { 1 } else { UNORDERED });
        let mut records: Vec<_> = records.into_iter().map(Some).collect();
        let mut course = Course {
            plan: Plan::new(positions),
            duplicates: Duplicates::default(),
            waited: VecDeque::new(),
            report: Report::new(S::NAME, operation.key_prefix(), records.len()),
            identifiers: &identifiers,
            is_lock: operation.compiled().is_lock(),
        };
        let mut reserve = Reserve::new(deadline.clone(), batch.reserve);
        let mut running = FuturesUnordered::new();
        loop {
            while running.len() < concurrency {
                let Some((at, ready)) = course.next() else {
                    break;
                };
                let Some(started) = reserve.start() else {
                    if running.is_empty() && reserve.is_untried() {
                        course.report.too_late(&reserve);
                    }
                    course.plan.stop();
                    break;
                };
                let ready = match ready {
                    Some(ready) => ready,
                    None => {
                        let Some(record) = records.get_mut(at).and_then(Option::take) else {
                            continue;
                        };
                        match prepare(operation, keying, &reader, record, deadline.clone()) {
                            Ok(ready) => match course.admit(at, ready) {
                                Some(ready) => ready,
                                None => continue,
                            },
                            Err(why) => {
                                course.end(at, Verdict::Returned(why));
                                continue;
                            }
                        }
                    }
                };
                let call = call(at, started, ready, &function, batch.log_errors);
                running.push(Box::pin(call));
            }
            let Some((at, started, verdict)) = running.next().await else {
                break;
            };
            reserve.learn(&started);
            course.end(at, verdict);
        }
        Ok(S::response(course.finish()))
    });
    InScope::new(change, batch).await
}

/// The course of a batch: which record is next, and how each ended.
struct Course<'a, A> {
    plan: Plan,
    duplicates: Duplicates<RecordId, Option<String>, Ready<A>>,
    /// Records that waited for another record with their key, and now need a call of their own.
    waited: VecDeque<(usize, Ready<A>)>,
    report: Report<'a>,
    identifiers: &'a [String],
    /// True if no response is stored: then the key is a lock, and records with one key are other work.
    is_lock: bool,
}

impl<A> Course<'_, A> {
    /// Returns the place of the record that starts next, and its call if it waited for another record.
    fn next(&mut self) -> Option<(usize, Option<Ready<A>>)> {
        if self.plan.is_stopped() {
            return None;
        }
        while let Some((at, ready)) = self.waited.pop_front() {
            if !self.plan.is_behind(at) {
                return Some((at, Some(ready)));
            }
            self.end(at, Verdict::Returned(Why::Behind));
        }
        Some((self.plan.start()?, None))
    }

    /// Returns the record if it needs a call of its own now.
    fn admit(&mut self, at: usize, ready: Ready<A>) -> Option<Ready<A>> {
        let identity = ready.call.identity();
        // Records without a key have nothing in common.
        let Some(key) = identity.key().cloned() else {
            return Some(ready);
        };
        let payload = identity.validation().map(str::to_owned);
        match self.duplicates.admit(at, key, payload, ready) {
            Turn::Run(ready) => Some(ready),
            Turn::Wait => None,
            Turn::Share(done) => {
                self.end(at, shared(done));
                None
            }
        }
    }

    /// Ends a record, and those that waited for it.
    fn end(&mut self, at: usize, verdict: Verdict) {
        let done = verdict.is_done();
        self.close(at, &verdict);
        let is_shared = !self.is_lock && verdict != Verdict::Done(Done::Unstored);
        let (shares, next) = self.duplicates.end(at, is_shared.then_some(done));
        for at in shares {
            self.close(at, &shared(done));
        }
        self.waited.extend(next);
    }

    fn close(&mut self, at: usize, verdict: &Verdict) {
        self.plan.end(at, verdict.is_done());
        if let Some(identifier) = self.identifiers.get(at) {
            self.report.record(identifier, verdict);
        }
    }

    /// Returns the identifiers of the records that the response must name.
    fn finish(mut self) -> Vec<String> {
        for (at, identifier) in self.identifiers.iter().enumerate() {
            if let Some(why) = self.plan.why_not_run(at) {
                self.report.record(identifier, &Verdict::Returned(why));
            }
        }
        self.report.end();
        let mut named = HashSet::new();
        let returned = self.plan.returned().into_iter();
        let identifiers = returned.filter_map(|at| self.identifiers.get(at));
        // Two records with one identifier are one entry.
        let once = identifiers.filter(|identifier| named.insert(identifier.as_str()));
        once.cloned().collect()
    }
}

/// Returns the verdict of a duplicate of a record that ended.
fn shared(done: bool) -> Verdict {
    if done {
        Verdict::Done(Done::Duplicate)
    } else {
        Verdict::Returned(Why::Duplicate)
    }
}

/// Where the key of each record comes from.
#[derive(Clone, Copy, Debug)]
enum Keying {
    /// The record's own id.
    Id,
    /// The body.
    Body,
    /// The whole record.
    Record,
}

impl Keying {
    /// Returns where the keys of a batch come from.
    ///
    /// # Errors
    ///
    /// If the operation validates and has no key expression, or if its steps would belong to one delivery.
    fn of(batch: &Batch) -> Result<Self, Error> {
        let compiled = batch.operation.compiled();
        let refused = |detail: &'static str| {
            let prefix = batch.operation.key_prefix();
            Err(Error::new(ErrorKind::Configuration, prefix).with_detail(detail))
        };
        match (compiled.key_expression(), compiled.validate_expression()) {
            (Some(_), Some("@"))
                if batch.key_from == KeyFrom::Record && compiled.policy().steps != Steps::Off =>
            {
                refused(
                    "`steps` with `key_from = \"record\"` need `validate`, with a part of the record that stays: one that is sent \
                     again, or moved back from a dead-letter queue, has another id and other times",
                )
            }
            (Some(_), _) => Ok(match batch.key_from {
                KeyFrom::Body => Self::Body,
                KeyFrom::Record => Self::Record,
            }),
            (None, None) => Ok(Self::Id),
            (None, Some(_)) => refused(
                "`validate` needs a `key` in a batch: without one the key is the record's own id, which always has the same \
                 body",
            ),
        }
    }
}

/// Returns what the response names each record by.
///
/// # Errors
///
/// If a record has no identifier: with an empty one Lambda would deliver the whole batch again, without an error.
fn identifiers<S: EventSource>(
    operation: &Operation,
    records: &[S::Record],
) -> Result<Vec<String>, Error> {
    let named = records.iter().enumerate().map(|(at, record)| {
        S::identifier(record).map(str::to_owned).ok_or_else(|| {
            Error::new(ErrorKind::InvalidPayload, operation.key_prefix()).with_detail(format!(
                "record {} of {} has no `{}`, so a partial batch response cannot name it: the whole batch is returned; check that \
                 the function's events come from a source of `{}`",
                at + 1,
                records.len(),
                S::IDENTIFIER,
                S::NAME
            ))
        })
    });
    named.collect()
}

/// Reads a record and identifies its call.
fn prepare<S: EventSource, A>(
    operation: &Operation,
    keying: Keying,
    reader: &Reader<S, A>,
    record: S::Record,
    deadline: Deadline,
) -> Result<Ready<A>, Why> {
    let refuse = |error: Error| {
        let kind = error.kind();
        // Emits the outcome event, so that the record is counted.
        drop(refused(error));
        Why::Refused(kind)
    };
    let error = |kind, detail| Error::new(kind, operation.key_prefix()).with_detail(detail);
    let undecodable = |fault: Undecodable| {
        refuse(error(
            ErrorKind::InvalidPayload,
            format!("the body {fault}"),
        ));
        Why::Undecodable
    };
    // First, because `read` takes the record.
    let text = match keying {
        Keying::Body => None,
        Keying::Record => Some(S::document(&record).map_err(undecodable)?),
        Keying::Id => Some(S::id(&record).ok_or_else(|| {
            let detail = format!("the record has no `{}`", S::ID);
            refuse(error(ErrorKind::KeyMissing, detail))
        })?),
    };
    // If the code of a type panics on one body, only its record is returned, not the whole batch.
    let argument = catch_call(|| (reader.read)(record))
        .unwrap_or_else(|| Err(Undecodable::new("made the code that reads it panic")))
        .map_err(undecodable)?;
    let call = match text {
        Some(text) => IdentifiedCall::new(operation, &Text(text), deadline),
        None => match catch_call(|| (reader.identify)(&argument, operation, deadline)) {
            Some(call) => call,
            None => {
                return Err(undecodable(Undecodable::new(
                    "made the code that writes it as JSON panic",
                )));
            }
        },
    };
    let mut call = call.map_err(refuse)?;
    if S::WAITS {
        call = call.waiting_by_default();
    }
    Ok(Ready { call, argument })
}

/// Runs the call of one record.
async fn call<A, R, E, F, Fut>(
    at: usize,
    mut started: RecordStart,
    Ready { call, argument }: Ready<A>,
    function: &Function<R, E, F>,
    log_errors: bool,
) -> (usize, RecordStart, Verdict)
where
    F: Fn(A, Call) -> Fut,
    Fut: Future<Output = Result<R, E>>,
{
    let succeeded = AtomicBool::new(false);
    let handler = async |call| {
        if !started.run() {
            // An error is a reported end: the key is free for the next delivery.
            return Err(CallError::NoTime);
        }
        let response = (function.handler)(argument, call).await;
        let response = response.map_err(CallError::Handler)?;
        succeeded.store(true, Ordering::Relaxed);
        Ok(response)
    };
    // The handler is the user's own function, so its error is its report.
    let errors =
        Errors::new(CallError::Framework).not_started(|error| matches!(error, CallError::NoTime));
    let outcome = catch(Box::pin(call.run_with(function.codec, errors, handler))).await;
    let verdict = match outcome {
        Some(Ok(outcome)) if outcome.has_dropped_writes() => Verdict::Returned(Why::Dropped),
        Some(Ok(outcome)) => Verdict::Done(match outcome.kind() {
            OutcomeKind::Executed { stored: false, .. } => Done::Unstored,
            _ => Done::Responded,
        }),
        Some(Err(CallError::Handler(error))) => Verdict::failed(error, function.named, log_errors),
        Some(Err(CallError::Framework(error))) => {
            Verdict::of(&error, succeeded.load(Ordering::Relaxed))
        }
        Some(Err(CallError::NoTime)) => Verdict::Returned(Why::NoTime),
        None => Verdict::Returned(Why::Panicked),
    };
    (at, started, verdict)
}
