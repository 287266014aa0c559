//! Fixed values and short forms for the examples in the documentation, and for tests. Not part of the public API.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::engine::Backend;
use crate::future::BoxFuture;
use crate::protocol::policy::Policy;
use crate::protocol::{CallTerms, Lease};
use crate::random::{Random, RandomError};
use crate::record::{Attribute, OwnerToken, RecordId};
use crate::store::{MemoryStore, Store, StoreLimits};
use crate::time::{Clock, EpochMillis};

/// A clock that stands still at the epoch, and a random source whose bytes are all 7.
#[derive(Clone, Copy, Debug)]
pub struct Fixed;

impl Clock for Fixed {
    fn now(&self) -> EpochMillis {
        EpochMillis::new(0)
    }

    fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> {
        Box::pin(std::future::ready(()))
    }
}

impl Random for Fixed {
    fn bytes(&self) -> Result<[u8; 16], RandomError> {
        Ok([7; 16])
    }
}

/// Returns every attribute that our conditions may name. `Event` is not one: a store may compress it.
pub fn compared() -> impl Iterator<Item = Attribute> {
    let all = Attribute::ALL.into_iter();
    all.filter(|attribute| *attribute != Attribute::Event)
}

/// Returns a backend over an empty store in memory.
pub fn backend() -> Backend {
    backend_over(Arc::new(MemoryStore::new()))
}

/// Returns a backend over `store`.
pub fn backend_over(store: Arc<dyn Store>) -> Backend {
    Backend::new(store, Arc::new(Fixed), Arc::new(Fixed))
}

/// Returns a call of the record `a#1` with the default policy, without deadline and validation.
pub fn call() -> CallTerms {
    CallTerms {
        id: RecordId::new("a#1"),
        owner: OwnerToken::from_bytes([1; 16]),
        validation: None,
        deadline: None,
        lease: Lease::For(Lease::DEFAULT_LENGTH),
        operation: None,
        event: None,
        policy: Policy::default(),
        limits: StoreLimits::NONE,
    }
}

/// Returns the output of a future that completes at its first poll.
///
/// # Panics
///
/// If the future is pending.
#[track_caller]
pub fn ready<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("the future is pending"),
    }
}

/// What several tests of this crate share.
#[cfg(test)]
pub(crate) mod shared {
    use std::collections::VecDeque;
    use std::fmt::Write as _;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, Mutex};
    use std::task::Poll;
    use std::time::Duration;

    use serde::Serialize;
    use serde::de::DeserializeOwned;

    use crate::config::{Settings, Variables};
    use crate::engine::{Backend, Call, Codec, Errors};
    use crate::error::{Error, ErrorKind};
    use crate::future::BoxFuture;
    use crate::operation::CompiledOperation;
    use crate::outcome::Outcome;
    use crate::store::{
        MemoryStore, OpenTransaction, SendLog, Store, StoreError, StoreErrorKind, StoreLimits,
        StoreReply, StoreRequest,
    };
    use crate::time::{Clock, EpochMillis};

    /// A clock that stands still at this time.
    pub(crate) struct At(pub(crate) EpochMillis);

    impl Clock for At {
        fn now(&self) -> EpochMillis {
            self.0
        }

        fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> {
            Box::pin(std::future::ready(()))
        }
    }

    /// A clock that stands still at this time, and on which nothing times out.
    pub(crate) struct Still(pub(crate) EpochMillis);

    impl Clock for Still {
        fn now(&self) -> EpochMillis {
            self.0
        }

        fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> {
            Box::pin(std::future::pending())
        }
    }

    /// Waits for one poll, so that a run can be killed there.
    pub(crate) async fn turn() {
        let mut has_waited = false;
        std::future::poll_fn(|_| match std::mem::replace(&mut has_waited, true) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        })
        .await;
    }

    /// A store in memory whose requests wait once before they are performed and once after.
    #[derive(Default)]
    pub(crate) struct Slow(pub(crate) MemoryStore);

    impl Store for Slow {
        fn send<'a>(
            &'a self,
            request: StoreRequest<'a>,
            log: &'a SendLog,
        ) -> BoxFuture<'a, StoreReply> {
            Box::pin(async move {
                turn().await;
                let reply = self.0.send(request, log).await;
                turn().await;
                reply
            })
        }

        fn begin(
            &self,
            left: Option<Duration>,
        ) -> BoxFuture<'_, Result<OpenTransaction, StoreError>> {
            Box::pin(async move {
                turn().await;
                let open = self.0.begin(left).await;
                turn().await;
                open
            })
        }

        fn limits(&self) -> StoreLimits {
            self.0.limits()
        }

        fn name(&self) -> String {
            "slow".to_owned()
        }
    }

    /// Returns settings that `set` has changed.
    pub(crate) fn settings(set: impl FnOnce(&mut Settings)) -> Settings {
        let mut settings = Settings::default();
        set(&mut settings);
        settings
    }

    /// Returns the operation `shop::place` with the prefix `shop`, whose settings `set` has changed.
    pub(crate) fn operation(set: impl FnOnce(&mut Settings)) -> CompiledOperation {
        let mut settings = settings(set);
        settings.key_prefix = Some("shop".into());
        CompiledOperation::new("shop::place", &settings, &Variables::default()).unwrap()
    }

    /// Returns one variable.
    pub(crate) fn variable(name: &str, value: &str) -> Variables {
        Variables::from_iter([(name.to_owned(), value.to_owned())])
    }

    /// Returns the kind of an error, and whether the handler ran.
    pub(crate) fn kind_and_run(error: &Error) -> (ErrorKind, bool) {
        (error.kind(), error.handler_ran())
    }

    /// Runs a call of this payload, whose caller gets the errors of this framework as they are.
    pub(crate) async fn run<R, F>(
        backend: &Backend,
        operation: &CompiledOperation,
        payload: &str,
        handler: impl FnOnce(Call) -> F,
    ) -> Result<Outcome<R>, Error>
    where
        R: Serialize + DeserializeOwned,
        F: Future<Output = Result<R, Error>>,
    {
        let identity = operation.identify(payload, None)?;
        let (codec, errors) = (Codec::json(), Errors::new(|error| error));
        let call = operation.run(backend, &identity, None, codec, errors, handler);
        call.await
    }

    /// What happens to a request.
    #[derive(Clone, Copy, Debug)]
    pub(crate) enum Fault {
        /// It is not performed, and fails with this kind.
        Fails(StoreErrorKind),
        /// It is performed, and its reply is lost.
        ReplyLost,
        /// It is performed, and its reply does not say what it replaced, or that it was the first send.
        RepliesLess,
    }

    pub(crate) const DENIED: Fault = Fault::Fails(StoreErrorKind::AccessDenied);
    pub(crate) const THROTTLED: Fault = Fault::Fails(StoreErrorKind::Throttled);
    pub(crate) const TOO_LARGE: Fault = Fault::Fails(StoreErrorKind::TooLarge);

    /// A store in memory whose requests fail as planned. The text of an error has the number of its write, from 0.
    #[derive(Default)]
    pub(crate) struct FaultyStore {
        pub(crate) records: MemoryStore,
        /// What happens to the next writes, in their order.
        next: Mutex<VecDeque<Option<Fault>>>,
        /// What happens to each other request.
        outage: Mutex<Option<Fault>>,
        writes: AtomicUsize,
    }

    impl FaultyStore {
        pub(crate) fn new(next: impl IntoIterator<Item = Option<Fault>>) -> Arc<Self> {
            Arc::new(Self {
                next: Mutex::new(next.into_iter().collect()),
                ..Self::default()
            })
        }

        /// Returns a store that performs the claim, and in which these faults happen to the next writes.
        pub(crate) fn after_the_claim(faults: &[Fault]) -> Arc<Self> {
            let faults = faults.iter().copied().map(Some);
            Self::new(std::iter::once(None).chain(faults))
        }

        /// Begins an outage, or ends it.
        pub(crate) fn set_outage(&self, outage: Option<Fault>) {
            *self.outage.lock().unwrap() = outage;
        }

        /// Returns the number of writes that were sent.
        pub(crate) fn writes(&self) -> usize {
            self.writes.load(Ordering::Relaxed)
        }
    }

    impl Store for FaultyStore {
        fn send<'a>(
            &'a self,
            request: StoreRequest<'a>,
            log: &'a SendLog,
        ) -> BoxFuture<'a, StoreReply> {
            let number = self.writes();
            let mut fault = None;
            if request.record().is_some() {
                self.writes.fetch_add(1, Ordering::Relaxed);
                fault = self.next.lock().unwrap().pop_front().flatten();
            }
            let fault = fault.or(*self.outage.lock().unwrap());
            let failed =
                move |kind| StoreReply::failed(StoreError::new(kind, format!("failure {number}")));
            Box::pin(async move {
                if let Some(Fault::Fails(kind)) = fault {
                    return failed(kind);
                }
                match (self.records.send(request, log).await, fault) {
                    (_, Some(Fault::ReplyLost)) => {
                        failed(StoreErrorKind::Unreachable).admit_earlier()
                    }
                    (StoreReply::Applied { .. }, Some(Fault::RepliesLess)) => {
                        StoreReply::applied().admit_earlier()
                    }
                    (reply, _) => reply,
                }
            })
        }

        fn begin(
            &self,
            left: Option<Duration>,
        ) -> BoxFuture<'_, Result<OpenTransaction, StoreError>> {
            self.records.begin(left)
        }

        fn limits(&self) -> StoreLimits {
            self.records.limits()
        }

        fn name(&self) -> String {
            "faulty".to_owned()
        }
    }

    /// Returns the lines of a table without blank lines and comments, which begin with `#`. Panics if there is none.
    pub(crate) fn lines(table: &str) -> impl Iterator<Item = &str> {
        let is_used = |line: &&str| !line.trim().is_empty() && !line.trim().starts_with('#');
        let mut lines = table.lines().filter(is_used).peekable();
        assert!(lines.peek().is_some(), "the table is empty");
        lines
    }

    /// Checks that each row is `input -> shown`, and panics with the rows that do not hold.
    pub(crate) fn check_each(table: &str, shown: impl Fn(&str) -> String) {
        check_rows(table, |row| {
            let (input, expected) = row.split_once(" -> ").expect("a row has a result");
            same(&shown(input), expected)
        });
    }

    /// Checks each row of the table, an indented line. Panics with the rows that do not hold, each with the last name before it.
    pub(crate) fn check_rows(table: &str, check: impl Fn(&str) -> Result<(), String>) {
        let mut failures = String::new();
        let mut name = String::new();
        let mut checked = 0;
        for row in rows(table) {
            if row.starts_with(' ') {
                checked += 1;
                let result = catch_unwind(AssertUnwindSafe(|| check(row.trim())));
                if let Err(failure) = result.unwrap_or_else(|_| Err("it panics".to_owned())) {
                    let _ = writeln!(failures, "{name}\n    {}\n    {failure}", row.trim());
                }
            } else {
                name = row;
            }
        }
        assert!(checked > 0, "the table is empty");
        assert!(failures.is_empty(), "\n{failures}");
    }

    /// Returns the names and the rows, each as one line. A line with eight spaces before it continues the line above.
    fn rows(table: &str) -> Vec<String> {
        let mut rows: Vec<String> = Vec::new();
        for line in lines(table) {
            match rows.last_mut() {
                Some(row) if line.starts_with("        ") => {
                    row.push(' ');
                    row.push_str(line.trim());
                }
                _ => rows.push(line.to_owned()),
            }
        }
        rows
    }

    /// Returns how the text that was found differs from the expected one.
    pub(crate) fn same(found: &str, expected: &str) -> Result<(), String> {
        let differs = || format!("expected `{expected}`, found `{found}`");
        (found == expected).then_some(()).ok_or_else(differs)
    }
}
