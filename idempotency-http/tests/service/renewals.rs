//! How long a key is refused after a kill of a server whose leases are renewed.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use idempotency_core::protocol::Lease;
use idempotency_core::random::{Random, RandomError};
use idempotency_http::Reason;

use crate::*;

/// A wall clock whose timers end when their request is polled after their time.
#[derive(Default)]
struct Hands(Arc<AtomicI64>);

impl Hands {
    fn passed(&self) -> i64 {
        self.0.load(Ordering::SeqCst)
    }

    fn pass(&self, milliseconds: i64) {
        self.0.fetch_add(milliseconds, Ordering::SeqCst);
    }
}

impl Clock for Hands {
    fn now(&self) -> EpochMillis {
        NOW.plus(Duration::from_millis(self.passed().unsigned_abs()))
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        let hands = Self(Arc::clone(&self.0));
        let until = hands.passed() + i64::try_from(duration.as_millis()).unwrap();
        Box::pin(poll_fn(move |_| match hands.passed() < until {
            true => Poll::Pending,
            false => Poll::Ready(()),
        }))
    }
}

/// Bytes that are the same in each token, and in the jitter of each renewal.
struct Repeats(u8);

impl Random for Repeats {
    fn bytes(&self) -> Result<[u8; 16], RandomError> {
        Ok([self.0; 16])
    }
}

/// How often a run is polled, in milliseconds.
const POLLS: usize = 10;

/// Returns how many milliseconds after a kill a client gets its response. Its first retry comes `late` milliseconds after the kill, and it
/// follows `Retry-After`. The server is killed a millisecond after it was polled at `kill` milliseconds. `jitter` is that of its renewals.
fn refused_for(lease: i64, kill: i64, jitter: u8, late: i64) -> i64 {
    let store = Arc::new(MemoryStore::new());
    let clock = Arc::new(Hands::default());
    let process = |random| {
        let backend = Backend::new(store.clone(), clock.clone(), Arc::new(Repeats(random)));
        let length = Duration::from_millis(lease.unsigned_abs());
        let layer = with(|builder| builder.renew(true).lease(length)).layer(backend);
        serve_with(layer, move |_, _| async move {
            match random == jitter {
                true => pending().await,
                false => text(201, "paid"),
            }
        })
    };
    let (killed, next) = (process(jitter).0, process(7).0);
    let mut running = Box::pin(killed.oneshot(request()));
    let mut context = Context::from_waker(Waker::noop());
    for polled in (0..=kill).step_by(POLLS) {
        clock.pass(polled - clock.passed());
        assert!(running.as_mut().poll(&mut context).is_pending());
    }
    clock.pass(1);
    drop(running);
    let killed_at = clock.passed();
    clock.pass(late);
    loop {
        let mut retry = Box::pin(pay(&next));
        let Poll::Ready(response) = retry.as_mut().poll(&mut context) else {
            panic!("the retry waits");
        };
        let Some(seconds) = response.headers().get("retry-after") else {
            assert_eq!(seen(&response), "201 paid");
            return clock.passed() - killed_at;
        };
        assert_eq!(response.status(), 409);
        let seconds: i64 = seconds.to_str().unwrap().parse().unwrap();
        clock.pass(seconds * 1_000);
    }
}

#[test]
fn a_client_gets_its_response_one_second_after_the_lease_of_a_killed_server_at_the_latest() {
    for (lease, step) in [(3_000, 100), (4_500, 150), (30_000, 1_000)] {
        let mut longest = 0;
        for jitter in [0, u8::MAX] {
            for late in [0, 499, 999] {
                for kill in (0..lease).step_by(step) {
                    let refused = refused_for(lease, kill, jitter, late);
                    longest = longest.max(refused);
                }
            }
        }
        // The claim lasts for a lease from its last renewal on, and `Retry-After` counts in seconds.
        assert_eq!(longest, lease + 999);
        assert!(longest * 2 <= lease * 3, "{longest} ms of {lease}");
    }
}

#[test]
fn the_guide_of_servers_has_the_times_and_names_of_the_code() {
    let page = include_str!("../../../docs/guide/servers.md");
    let lease = |operation: HttpOperation| operation.compiled().lease(None);
    let Lease::Renewed { length, at_most } = lease(with(|it| it.renew(true))) else {
        panic!("no lease is renewed")
    };
    let Lease::For(fixed) = lease(operation()) else {
        panic!("a lease is renewed")
    };
    let (length, fixed) = (length.as_secs(), fixed.as_secs() / 60);
    let mut said = vec![
        format!("a key is free in {length} s"),
        // As the test above shows.
        format!("at most {} s after the kill", length + 1),
        format!("409 for `lease`, {fixed} minutes by default"),
        format!("`renew_at_most` ({} h)", at_most.as_secs() / 3_600),
        // A third of the lease has passed before its renewal.
        format!("ahead by {} s", length * 2 / 3),
        format!("retries get {}", Reason::InProgress.status().as_u16()),
        format!("new requests get {}", Reason::Unavailable.status().as_u16()),
    ];
    for reason in [Reason::NotConfirmed, Reason::Misconfigured] {
        let (_, name) = reason.type_uri().rsplit_once(':').unwrap();
        said.push(format!("{} `{name}`", reason.status().as_u16()));
    }
    let operation = operation();
    let (host, _) = operation.compiled().key_prefix().split_once('.').unwrap();
    said.push(format!("has `{host}` as the beginning of its key prefix"));
    for said in said {
        assert!(page.contains(&said), "{said}");
    }
}
