//! Runs a batch: starts its records in their order, and makes the partial batch response.

use std::collections::{HashSet, VecDeque};
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use idempotency_core::engine::Codec;
use idempotency_core::error::{Error, ErrorKind};
use idempotency_core::event::refused;
use idempotency_core::operation::OfferedCall;
use lambda_runtime::LambdaEvent;

use super::body::{Text, Undecodable};
use super::catch::{catch, catch_call};
use super::duplicates::{Duplicates, Meet};
use super::plan::Plan;
use super::report::Report;
use super::reserve::{Reserve, Started};
use super::settings::{Batch, KeyFrom};
use super::source::{EventSource, FromRecord};
use super::verdict::{CallError, Done, Verdict, Why};
use crate::invocation::{Change, Deadline, InScope};
use crate::operation::{IdentifiedCall, Operation};

/// How many records of a source without an order run at a time.
const UNORDERED: usize = 10;

/// A record whose body is read and whose call is identified.
struct Ready<A> {
    call: IdentifiedCall,
    argument: A,
}

/// How a record becomes the handler's argument. It is an argument and not a bound, so that the attribute can report a type that
/// does not fit once, at its place.
pub struct Reader<S: EventSource, A> {
    read: fn(S::Record) -> Result<A, Undecodable>,
    identify: fn(&A, &Operation, Deadline) -> Result<IdentifiedCall, Error>,
}

impl<S: EventSource, A: FromRecord<S>> Reader<S, A> {
    pub(crate) fn new() -> Self {
        Self {
            read: A::from_record,
            identify: A::identify,
        }
    }
}

/// What a handler gets beside the record: nothing, or its call.
pub(crate) type Ask<C> = fn(OfferedCall<'_>) -> C;

/// Runs `handler` for each record of an event, with the record and what `ask` takes of the call.
///
/// # Errors
///
/// If the batch cannot be handled at all. No handler has run.
pub(crate) async fn run<S, A, C, R, E, F, Fut>(
    batch: Batch,
    event: LambdaEvent<S::Event>,
    reader: Reader<S, A>,
    codec: Codec<R>,
    ask: Ask<C>,
    handler: F,
) -> Result<S::Response, Error>
where
    S: EventSource,
    F: Fn(A, C) -> Fut,
    Fut: Future<Output = Result<R, E>>,
{
    // The calls of a batch are one flush of metrics, also if the function does not start with `run`.
    let change = Change::of_context(&event.context);
    InScope::new(
        change,
        Box::pin(in_invocation(batch, event, reader, codec, ask, handler)),
    )
    .await
}

/// Runs `handler` for each record, inside the scope of the invocation.
async fn in_invocation<S, A, C, R, E, F, Fut>(
    batch: Batch,
    event: LambdaEvent<S::Event>,
    reader: Reader<S, A>,
    codec: Codec<R>,
    ask: Ask<C>,
    handler: F,
) -> Result<S::Response, Error>
where
    S: EventSource,
    F: Fn(A, C) -> Fut,
    Fut: Future<Output = Result<R, E>>,
{
    let LambdaEvent { payload, context } = event;
    let operation = &batch.operation;
    let keying = Keying::of(&batch).map_err(refused)?;
    let records = S::records(payload);
    let identifiers = identifiers::<S>(operation, &records).map_err(refused)?;
    let deadline = Deadline::from(&context);
    let places: Vec<_> = records
        .iter()
        .map(|record| S::position(record, batch.order))
        .collect();
    let is_ordered = places.iter().any(|place| place.group.is_some());
    let concurrency = batch
        .concurrency
        .unwrap_or(if is_ordered { 1 } else { UNORDERED });
    let mut records: Vec<_> = records.into_iter().map(Some).collect();
    let mut course = Course {
        plan: Plan::new(places),
        duplicates: Duplicates::default(),
        ready: VecDeque::new(),
        report: Report::new(S::NAME, operation.key_prefix(), records.len()),
        identifiers: &identifiers,
    };
    let mut reserve = Reserve::new(deadline.clone(), batch.reserve);
    let mut running = FuturesUnordered::new();
    loop {
        while running.len() < concurrency {
            let Some(next) = course.next() else {
                break;
            };
            let Some(started) = reserve.start() else {
                if running.is_empty() && reserve.is_untried() {
                    course.report.too_late(&reserve);
                }
                course.stop(next.at);
                break;
            };
            let ready = match next.ready {
                Some(ready) => ready,
                None => {
                    let Some(record) = records.get_mut(next.at).and_then(Option::take) else {
                        continue;
                    };
                    match prepare(operation, keying, &reader, record, deadline.clone()) {
                        Ok(ready) => match course.meet(next.at, ready) {
                            Some(ready) => ready,
                            None => continue,
                        },
                        Err(why) => {
                            course.end(next.at, Verdict::Returned(why));
                            continue;
                        }
                    }
                }
            };
            let (at, handler) = (next.at, &handler);
            running.push(Box::pin(call(at, started, ready, codec, ask, handler)));
        }
        let Some((at, started, verdict)) = running.next().await else {
            break;
        };
        reserve.learn(started);
        course.end(at, verdict);
    }
    Ok(S::response(course.finish()))
}

/// The course of a batch: which record is next, and how each ended.
struct Course<'a, A> {
    plan: Plan,
    duplicates: Duplicates<Ready<A>>,
    /// Records that waited for another with their key, and get a call of their own.
    ready: VecDeque<(usize, Ready<A>)>,
    report: Report<'a>,
    identifiers: &'a [String],
}

/// A record that can start.
struct Next<A> {
    at: usize,
    ready: Option<Ready<A>>,
}

impl<A> Course<'_, A> {
    fn next(&mut self) -> Option<Next<A>> {
        while let Some((at, ready)) = self.ready.pop_front() {
            if !self.plan.is_behind(at) {
                let ready = Some(ready);
                return Some(Next { at, ready });
            }
            self.end(at, Verdict::Returned(Why::Behind));
        }
        let at = self.plan.start()?;
        Some(Next { at, ready: None })
    }

    /// Returns the record if it needs a call of its own now.
    fn meet(&mut self, at: usize, ready: Ready<A>) -> Option<Ready<A>> {
        let identity = ready.call.identity().clone();
        match self.duplicates.meet(at, &identity, ready) {
            Meet::Run(ready) => Some(ready),
            Meet::Wait => None,
            Meet::Share(done) => {
                self.end(at, shared(done));
                None
            }
        }
    }

    /// Ends a record, and those that waited for it.
    fn end(&mut self, at: usize, verdict: Verdict) {
        let done = verdict.is_done();
        self.close(at, &verdict);
        for (at, meet) in self.duplicates.end(at, done) {
            match meet {
                Meet::Run(ready) => self.ready.push_back((at, ready)),
                Meet::Share(done) => self.close(at, &shared(done)),
                Meet::Wait => {}
            }
        }
    }

    fn close(&mut self, at: usize, verdict: &Verdict) {
        self.plan.end(at, verdict.is_done());
        if let Some(identifier) = self.identifiers.get(at) {
            self.report.record(identifier, verdict);
        }
    }

    /// Starts nothing more: neither this record nor any other.
    fn stop(&mut self, at: usize) {
        self.plan.stop();
        self.end(at, Verdict::Returned(Why::NoTime));
        // The end of one record can make another ready.
        while let Some((at, _)) = self.ready.pop_front() {
            self.end(at, Verdict::Returned(Why::NoTime));
        }
    }

    /// Returns the identifiers of the records that the response must name.
    fn finish(mut self) -> Vec<String> {
        for (at, identifier) in self.identifiers.iter().enumerate() {
            if self.plan.is_untouched(at) {
                let why = self.plan.why_untouched();
                self.report.record(identifier, &Verdict::Returned(why));
            }
        }
        self.report.end();
        let mut named = HashSet::new();
        let returned = self.plan.returned().into_iter();
        let identifiers = returned.filter_map(|at| self.identifiers.get(at));
        // Two records of one identifier are one entry.
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
    /// If the operation validates and has no key expression.
    fn of(batch: &Batch) -> Result<Self, Error> {
        let compiled = batch.operation.compiled();
        match (compiled.key_expression(), compiled.validate_expression()) {
            (Some(_), _) => Ok(match batch.key_from {
                KeyFrom::Body => Self::Body,
                KeyFrom::Record => Self::Record,
            }),
            (None, None) => Ok(Self::Id),
            (None, Some(_)) => Err(Error::new(
                ErrorKind::Configuration,
                batch.operation.key_prefix(),
            )
            .with_detail(
                "`validate` needs a `key` in a batch: without one the key is the record's own id, which always has the same \
                 body",
            )),
        }
    }
}

/// Returns what the response names each record by.
///
/// # Errors
///
/// If a record has no identifier: an empty one would make Lambda deliver the whole batch again without a word.
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
    // The record is taken by the argument.
    let text = match keying {
        Keying::Body => None,
        Keying::Record => Some(S::document(&record).map_err(undecodable)?),
        Keying::Id => Some(S::id(&record).ok_or_else(|| {
            let detail = format!("the record has no `{}`", S::ID);
            refuse(error(ErrorKind::KeyMissing, detail))
        })?),
    };
    // The code of a type that panics on one body must not return the whole batch each time.
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
    let call = call.map_err(refuse)?;
    Ok(Ready { call, argument })
}

/// Runs the call of one record.
async fn call<A, C, R, E, F, Fut>(
    at: usize,
    started: Started,
    Ready { call, argument }: Ready<A>,
    codec: Codec<R>,
    ask: Ask<C>,
    handler: &F,
) -> (usize, Started, Verdict)
where
    F: Fn(A, C) -> Fut,
    Fut: Future<Output = Result<R, E>>,
{
    let succeeded = AtomicBool::new(false);
    let succeeds = &succeeded;
    let start = |offered: OfferedCall<'_>| {
        let asked = ask(offered);
        Box::pin(async move {
            let response = handler(argument, asked).await;
            let response = response.map_err(CallError::Handler)?;
            succeeds.store(true, Ordering::Relaxed);
            Ok(response)
        })
    };
    let outcome = catch(Box::pin(call.run_with(codec, CallError::Framework, start))).await;
    let verdict = match outcome {
        Some(Ok(outcome)) if outcome.has_dropped_writes() => Verdict::Returned(Why::Dropped),
        Some(Ok(_)) => Verdict::Done(Done::Responded),
        Some(Err(error)) => Verdict::of(&error, succeeded.load(Ordering::Relaxed)),
        None => Verdict::Returned(Why::Panicked),
    };
    (at, started, verdict)
}
