//! Sends to servers that are written here: each replies as its script says.

use std::sync::{Arc, Mutex};

use idempotency_core::store::StoreErrorKind;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::address::{Address, Target};
use crate::connection::Connector;
use crate::password::Password;
use crate::request::Request;
use tokio::time::timeout;

/// What a server does with a command.
#[derive(Clone)]
enum Does {
    Replies(Vec<u8>),
    /// Closes the connection.
    Closes,
    /// Keeps the command, and the connection open.
    Hangs,
}

fn replies(text: impl Into<Vec<u8>>) -> Does {
    Does::Replies(text.into())
}

/// The reply to a write that was applied.
const APPLIED: &str = "$-1\r\n";

/// What a good server says of itself.
const INFO: &str = "redis_version:7.2.4\r\nrole:master\r\nmaxmemory_policy:noeviction\r\n";

/// A server that does these things in turn, one for each command but `PING`, and notes the first argument of each, without the `INFO` of a new
/// connection.
struct Fake {
    address: Address,
    does: Arc<Mutex<std::vec::IntoIter<Does>>>,
    seen: Arc<Mutex<Vec<String>>>,
    /// The reply to the first command of a connection.
    hello: Arc<Mutex<String>>,
}

impl Fake {
    async fn new(does: Vec<Does>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = Address::of(&listener.local_addr().unwrap().to_string()).unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let does = Arc::new(Mutex::new(does.into_iter()));
        let (noted, script) = (Arc::clone(&seen), Arc::clone(&does));
        let hello = Arc::new(Mutex::new(bulk(INFO)));
        let said = Arc::clone(&hello);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(
                    stream,
                    Arc::clone(&noted),
                    Arc::clone(&script),
                    Arc::clone(&said),
                ));
            }
        });
        Self {
            address,
            does,
            seen,
            hello,
        }
    }

    fn sender(&self) -> Sender {
        sender_to(&self.address)
    }

    fn does(&self, does: Vec<Does>) {
        *self.does.lock().unwrap() = does.into_iter();
    }

    fn seen(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }
}

/// Returns a sender to this server that has sent nothing yet.
fn new_sender_to(address: &Address) -> Sender {
    let target = Target::of(&format!("redis://{address}")).unwrap();
    Sender::new(Nodes::new(Connector { target, tls: None }))
}

/// As [`new_sender_to`], which knows that the server has no `IFEQ`.
fn sender_to(address: &Address) -> Sender {
    let sender = new_sender_to(address);
    sender.lacks[0].store(true, Ordering::Relaxed);
    sender
}

async fn serve(
    mut stream: TcpStream,
    noted: Arc<Mutex<Vec<String>>>,
    does: Arc<Mutex<std::vec::IntoIter<Does>>>,
    hello: Arc<Mutex<String>>,
) {
    let (mut input, mut is_new) = (Vec::new(), true);
    loop {
        while let Some((name, length)) = command(&input) {
            input.drain(..length);
            let is_hello = std::mem::take(&mut is_new);
            if !is_hello {
                noted.lock().unwrap().push(name.clone());
            }
            let next = match name.as_str() {
                _ if is_hello => replies(hello.lock().unwrap().clone()),
                "PING" => replies("+PONG\r\n"),
                "ASKING" => replies("+OK\r\n"),
                _ => does.lock().unwrap().next().unwrap_or(Does::Closes),
            };
            match next {
                Does::Replies(reply) => stream.write_all(&reply).await.unwrap(),
                Does::Closes => return,
                Does::Hangs => std::future::pending().await,
            }
        }
        if stream.read_buf(&mut input).await.unwrap_or(0) == 0 {
            return;
        }
    }
}

/// Returns a text as a reply.
fn bulk(text: &str) -> String {
    format!("${}\r\n{text}\r\n", text.len())
}

/// Reads one command: its name, and its length on the wire. `None` if it is not complete.
fn command(input: &[u8]) -> Option<(String, usize)> {
    let line = |at: usize| -> Option<(usize, usize)> {
        let end = at + input.get(at..)?.windows(2).position(|two| two == b"\r\n")?;
        let number = std::str::from_utf8(&input[at + 1..end])
            .ok()?
            .parse()
            .ok()?;
        Some((number, end + 2))
    };
    let (count, mut at) = line(0)?;
    let mut name = None;
    for _ in 0..count {
        let (length, begin) = line(at)?;
        at = begin + length + 2;
        let argument = input.get(begin..at)?;
        name.get_or_insert_with(|| String::from_utf8_lossy(&argument[..length]).into_owned());
    }
    Some((name?, at))
}

/// Returns the reply to `CLUSTER SLOTS` of a cluster whose one primary has this address.
fn slots(Address { host, port }: &Address) -> Does {
    let length = host.len();
    let primary = format!("*2\r\n${length}\r\n{host}\r\n:{port}\r\n");
    replies(format!("*1\r\n*3\r\n:0\r\n:16383\r\n{primary}"))
}

/// Returns a write that replaces this value.
fn replaces(old: Option<&'static [u8]>) -> Request<'static> {
    Request::replace("p:{a}", old, Some(b"2"), None)
}

/// Sends a write whose caller waits for 5 s. Returns the reply, or the error, and the notes.
async fn write(sender: &Sender) -> (Result<Reply, StoreError>, SendLog) {
    write_within(sender, Duration::from_secs(5)).await
}

async fn write_within(sender: &Sender, limit: Duration) -> (Result<Reply, StoreError>, SendLog) {
    let log = SendLog::with_limit(limit);
    log.preparing();
    let reply = timeout(limit, sender.run(replaces(Some(b"1")), true, &log)).await;
    (reply.expect("the write ends in time"), log)
}

/// Gives up a write that the server has got, and does not reply to.
async fn give_up(sender: &Sender, fake: &Fake) {
    let (seen, log) = (
        fake.seen().len(),
        SendLog::with_limit(Duration::from_secs(5)),
    );
    let mut send = std::pin::pin!(sender.run(replaces(Some(b"1")), true, &log));
    tokio::select! {
        _ = &mut send => panic!("the server does not reply"),
        () = async { while fake.seen().len() == seen { tokio::task::yield_now().await } } => {}
    }
    assert!(log.maybe_applied(), "the send was given up");
}

#[tokio::test]
async fn a_script_that_the_server_does_not_have_is_sent_whole() {
    let fake = Fake::new(vec![
        replies("-NOSCRIPT No matching script.\r\n"),
        replies(APPLIED),
    ])
    .await;
    let (reply, log) = write(&fake.sender()).await;
    assert_eq!(reply.unwrap(), Reply::Replaced);
    assert_eq!(fake.seen(), ["EVALSHA", "EVAL"]);
    assert!(
        !log.maybe_again(),
        "the first send was certainly not applied"
    );
}

#[tokio::test]
async fn a_write_follows_its_key_to_another_server_and_learns_the_slots() {
    let other = Fake::new(vec![replies(APPLIED), replies(APPLIED)]).await;
    let moved = replies(format!("-MOVED 7 {}\r\n", other.address));
    let first = Fake::new(vec![moved, slots(&other.address)]).await;
    let sender = first.sender();
    let (reply, log) = write(&sender).await;
    assert!(reply.is_ok() && !log.maybe_again());
    assert_eq!(first.seen(), ["EVALSHA", "CLUSTER"]);
    // The next one goes there at once.
    assert!(write(&sender).await.0.is_ok());
    assert_eq!((first.seen().len(), other.seen().len()), (2, 2));
}

#[tokio::test]
async fn a_key_that_is_moving_is_asked_for_in_one_piece() {
    let unknown = replies("-NOSCRIPT No matching script.\r\n");
    let other = Fake::new(vec![unknown, replies(APPLIED)]).await;
    let ask = replies(format!("-ASK 7 {}\r\n", other.address));
    let first = Fake::new(vec![ask]).await;
    assert!(write(&first.sender()).await.0.is_ok());
    assert_eq!(other.seen(), ["ASKING", "EVALSHA", "ASKING", "EVAL"]);
}

#[tokio::test(start_paused = true)]
async fn what_passes_by_itself_is_sent_again_a_few_times() {
    let loading = || replies("-LOADING Redis is loading the dataset in memory\r\n");
    let fake = Fake::new(vec![loading(), loading(), replies(APPLIED)]).await;
    let (reply, log) = write(&fake.sender()).await;
    assert!(reply.is_ok() && !log.maybe_again());
    let fake = Fake::new(vec![loading(); 9]).await;
    let (reply, log) = write(&fake.sender()).await;
    let error = reply.unwrap_err();
    assert!(error.to_string().contains("LOADING"), "{error}");
    assert_eq!(error.kind(), StoreErrorKind::Internal);
    assert_eq!(fake.seen().len(), 1 + MOST_PAUSES as usize);
    assert!(!log.maybe_applied());
}

#[tokio::test]
async fn a_write_whose_reply_is_lost_is_not_sent_again_and_a_read_of_it_neither() {
    let fake = Fake::new(vec![Does::Closes, replies(APPLIED)]).await;
    let sender = fake.sender();
    let (reply, log) = write(&sender).await;
    assert_eq!(reply.unwrap_err().kind(), StoreErrorKind::Unreachable);
    assert!(log.maybe_applied());
    // The next one has a new connection.
    assert!(write(&sender).await.0.is_ok());
    assert_eq!(fake.seen(), ["EVALSHA", "EVALSHA"]);
}

#[tokio::test(start_paused = true)]
async fn a_script_is_sent_whole_also_after_the_last_pause_and_only_once() {
    let loading = replies("-LOADING Redis is loading the dataset in memory\r\n");
    let unknown = || replies("-NOSCRIPT No matching script.\r\n");
    let mut does = vec![loading; MOST_PAUSES as usize];
    does.extend([unknown(), replies(APPLIED)]);
    assert!(write(&Fake::new(does).await.sender()).await.0.is_ok());
    let fake = Fake::new(vec![unknown(); 3]).await;
    let error = write(&fake.sender()).await.0.unwrap_err();
    assert!(error.to_string().contains("NOSCRIPT"), "{error}");
    assert_eq!(fake.seen(), ["EVALSHA", "EVAL"]);
}

#[tokio::test]
async fn a_write_that_is_sent_from_server_to_server_ends() {
    let first = Fake::new(vec![]).await;
    let ask = replies(format!("-ASK 7 {}\r\n", first.address));
    let second = Fake::new(vec![ask; 99]).await;
    first.does(vec![replies(format!("-ASK 7 {}\r\n", second.address)); 99]);
    let (reply, log) = write(&first.sender()).await;
    assert!(
        reply
            .unwrap_err()
            .to_string()
            .contains("from server to server")
    );
    assert_eq!(log.sends(), 1 + MOST_REDIRECTS);
    assert!(!log.maybe_applied());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_cannot_be_reached_has_applied_nothing() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let address = Address::of(&address.to_string()).unwrap();
    let (reply, log) = write(&sender_to(&address)).await;
    let error = reply.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Unreachable);
    assert!(
        error.to_string().contains("no connection to 127.0.0.1"),
        "{error}"
    );
    assert!(!log.maybe_applied() && log.sends() == 0);
}

#[tokio::test(start_paused = true)]
async fn a_function_that_returns_no_password_in_time_is_not_waited_for() {
    let fake = Fake::new(vec![]).await;
    let mut target = Target::of(&format!("redis://{}", fake.address)).unwrap();
    let never = std::future::pending::<Result<String, StoreError>>;
    target.password = Some(Password::from_function(never));
    let (reply, log) = write(&Sender::new(Nodes::new(Connector { target, tls: None }))).await;
    let error = reply.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Credentials);
    assert!(
        error.to_string().contains("did not end within 1.5s"),
        "{error}"
    );
    assert!(!log.maybe_applied() && log.sends() == 0);
}

#[tokio::test]
async fn a_connection_whose_send_was_given_up_is_tried_before_the_next_one() {
    let fake = Fake::new(vec![Does::Hangs, replies(APPLIED)]).await;
    let sender = fake.sender();
    give_up(&sender, &fake).await;
    tokio::time::pause();
    // The server does not read the `PING`, so a new connection is made.
    assert!(write(&sender).await.0.is_ok());
    assert_eq!(fake.seen(), ["EVALSHA", "EVALSHA"]);
}

#[tokio::test]
async fn a_reply_that_no_request_asked_for_is_that_of_no_later_one() {
    let two = replies(format!("{APPLIED}:0\r\n"));
    let fake = Fake::new(vec![two, replies(APPLIED)]).await;
    let sender = fake.sender();
    for _ in 0..2 {
        assert_eq!(write(&sender).await.0.unwrap(), Reply::Replaced);
    }
}

#[tokio::test]
async fn a_connection_that_was_frozen_is_tried_and_kept_or_replaced_before_a_send() {
    let fake = Fake::new(vec![replies(APPLIED), replies(APPLIED)]).await;
    let sender = fake.sender();
    assert!(write(&sender).await.0.is_ok());
    sender.nodes.seed().freeze(Duration::from_secs(60));
    let (reply, log) = write(&sender).await;
    assert!(reply.is_ok() && log.sends() == 1);
    assert_eq!(fake.seen(), ["EVALSHA", "PING", "EVALSHA"]);
}

#[test]
fn a_connection_that_was_closed_while_the_process_did_nothing_costs_no_send() {
    use std::io::{Read as _, Write as _};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (closed, is_closed) = std::sync::mpsc::channel();
    let server = std::thread::spawn(move || {
        for _ in 0..2 {
            let (mut stream, _) = listener.accept().unwrap();
            let mut input = [0; 4096];
            for reply in [&*bulk(INFO), APPLIED] {
                assert!(stream.read(&mut input).unwrap() > 0);
                stream.write_all(reply.as_bytes()).unwrap();
            }
            drop(stream);
            closed.send(()).unwrap();
        }
    });
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.unwrap();
    let sender = sender_to(&Address::of(&address.to_string()).unwrap());
    assert!(runtime.block_on(write(&sender)).0.is_ok());
    is_closed.recv().unwrap();
    sender.nodes.seed().freeze(Duration::from_secs(1));
    let (reply, log) = runtime.block_on(write(&sender));
    assert!(reply.is_ok() && log.sends() == 1);
    server.join().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_cluster_whose_primary_is_gone_or_hangs_is_asked_for_the_next_one() {
    let (long, short) = (Duration::from_secs(5), Duration::from_millis(500));
    for (hangs, limit, stays_for) in [(false, long, 2), (true, long, 2), (true, short, 1)] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let lost = Address::of(&listener.local_addr().unwrap().to_string()).unwrap();
        // The kernel accepts connections, and no process reads from them.
        let _listener = hangs.then_some(listener);
        let next = Fake::new(vec![replies(APPLIED)]).await;
        let mut does = vec![slots(&lost); stays_for];
        does.push(slots(&next.address));
        let seed = Fake::new(does).await;
        let sender = seed.sender();
        sender.nodes.learn(sender.nodes.seed(), true).await;
        let (reply, log) = write_within(&sender, limit).await;
        assert!(reply.is_ok() && log.sends() == 1, "{hangs}: {reply:?}");
        assert_eq!(seed.seen(), vec!["CLUSTER"; stays_for + 1]);
        assert_eq!(next.seen(), ["EVALSHA"]);
    }
}

#[tokio::test]
async fn a_cluster_is_asked_for_its_slots_all_at_once_so_that_one_server_is_enough() {
    let mut gone = Vec::new();
    for _ in 0..7 {
        // The kernel accepts connections, and no process reads from them.
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = Address::of(&listener.local_addr().unwrap().to_string()).unwrap();
        gone.push((listener, address));
    }
    let next = Fake::new(vec![]).await;
    next.does(vec![slots(&next.address), replies(APPLIED)]);
    let servers: Vec<_> = gone.iter().map(|(_, address)| address.clone()).collect();
    let sender = sender_to(&servers[0]);
    sender.nodes.keep(vec![(
        16_383,
        [&servers[1..], std::slice::from_ref(&next.address)].concat(),
    )]);
    let (reply, _) = write_within(&sender, Duration::from_secs(6)).await;
    assert!(reply.is_ok(), "{reply:?}");
    assert_eq!(next.seen(), ["CLUSTER", "EVALSHA"]);
}

#[tokio::test]
async fn a_server_that_does_not_say_the_slots_does_not_keep_another_one_from_it() {
    let next = Fake::new(vec![replies(APPLIED)]).await;
    let other = Fake::new(vec![slots(&next.address)]).await;
    let seed = Fake::new(vec![slots(&other.address), Does::Hangs]).await;
    let sender = seed.sender();
    let nodes = &sender.nodes;
    nodes.learn(nodes.seed(), true).await;
    tokio::time::pause();
    let learnt = nodes.learn(nodes.seed(), true);
    let learnt = timeout(Duration::from_secs(2), learnt).await;
    assert!(learnt.is_ok() && write(&sender).await.0.is_ok());
    assert_eq!((seed.seen().len(), other.seen().len()), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_refuses_the_first_command_or_cannot_be_used_got_no_request() {
    for error in [
        "ERR max number of clients reached",
        "DENIED Redis is running in protected mode",
        "NOAUTH Authentication required.",
        "NOPERM this user has no permissions",
        "LOADING Redis is loading",
    ] {
        let fake = Fake::new(vec![replies(APPLIED)]).await;
        *fake.hello.lock().unwrap() = format!("-{error}\r\n");
        let (reply, log) = write(&fake.sender()).await;
        let failed = reply.unwrap_err().to_string();
        assert!(failed.contains(error), "{failed}");
        assert_eq!((log.sends(), log.maybe_applied()), (0, false), "{error}");
    }
    let fake = Fake::new(vec![replies(APPLIED)]).await;
    let sender = fake.sender();
    *fake.hello.lock().unwrap() = bulk(&INFO.replace("noeviction", "allkeys-lru"));
    let (reply, log) = write(&sender).await;
    assert_eq!(reply.unwrap_err().kind(), StoreErrorKind::WrongSchema);
    assert_eq!((log.sends(), log.maybe_applied()), (0, false));
    // A replica becomes the primary.
    *fake.hello.lock().unwrap() = bulk(&INFO.replace("master", "slave"));
    let promotes = async {
        tokio::task::yield_now().await;
        *fake.hello.lock().unwrap() = bulk(INFO);
    };
    let ((reply, log), ()) = tokio::join!(write(&sender), promotes);
    assert!(reply.is_ok() && log.sends() == 1);
}

#[tokio::test]
async fn a_reply_that_is_none_of_the_script_may_be_applied() {
    let fake = Fake::new(vec![replies("+OK\r\n")]).await;
    let (reply, log) = write(&fake.sender()).await;
    assert!(reply.unwrap_err().to_string().contains("cannot be read"));
    assert!(log.maybe_applied());
}

#[tokio::test]
async fn a_claim_is_one_command_and_a_server_that_cannot_perform_it_runs_the_script() {
    let run = async |fake: &Fake, sender: &Sender| {
        let log = SendLog::with_limit(Duration::from_secs(5));
        log.preparing();
        let reply = sender.run(replaces(None), true, &log).await;
        assert!(!log.maybe_applied() || reply.is_ok());
        (reply.map_err(|error| error.to_string()), fake.seen())
    };
    let present = || replies("$1\r\n7\r\n");
    let found = Ok(Reply::Present(Some(b"7".to_vec())));
    for refused in ["OOM", "MISCONF", "NOREPLICAS"] {
        let refused = || replies(format!("-{refused} why\r\n"));
        let fake = Fake::new(vec![refused(), present(), refused(), refused()]).await;
        let sender = fake.sender();
        assert_eq!(run(&fake, &sender).await.0, found);
        let (reply, seen) = run(&fake, &sender).await;
        assert!(reply.unwrap_err().contains("why"));
        assert_eq!(seen, ["SET", "EVALSHA", "SET", "EVALSHA"]);
    }
    // Nil is what a server without the key replies.
    let fake = Fake::new(vec![replies("$-1\r\n"), present()]).await;
    let (sender, log) = (new_sender_to(&fake.address), SendLog::new());
    let reply = sender.run(replaces(Some(b"1")), true, &log).await;
    assert_eq!(reply.map_err(|error| error.to_string()), found);
    assert_eq!(fake.seen(), ["SET", "EVALSHA"]);
    // Redis 6.2 has no `NX` beside `GET`.
    let old = replies("-ERR syntax error\r\n");
    let fake = Fake::new(vec![old, present(), present()]).await;
    let sender = new_sender_to(&fake.address);
    assert_eq!(run(&fake, &sender).await.0, found);
    assert_eq!(run(&fake, &sender).await.1, ["SET", "EVALSHA", "EVALSHA"]);
    // What the server never performs is asked once.
    let fake = Fake::new(vec![replies("-WRONGTYPE why\r\n")]).await;
    assert_eq!(run(&fake, &fake.sender()).await.1, ["SET"]);
}

#[tokio::test]
async fn a_server_whose_replies_mean_something_else_is_refused_at_the_start() {
    let nil = || replies("$-1\r\n");
    let there = |value| replies(bulk(value));
    for (does, seen) in [
        // It does not say what prevents a claim.
        (vec![nil(), nil()], 2),
        // It replaces a value without a comparison.
        (
            vec![
                nil(),
                there("1"),
                there("1"),
                there("2"),
                there("3"),
                there("3"),
            ],
            6,
        ),
    ] {
        let fake = Fake::new(does).await;
        let url = format!("redis://{}", fake.address);
        let store = crate::ValkeyStore::builder(url).build().unwrap();
        let start = idempotency_core::store::Store::warm_up(&store, false).await;
        let error = start.unwrap_err().to_string();
        let strange = error.contains("are not those of Valkey or Redis");
        assert!(strange, "{error}");
        assert_eq!(fake.seen().len(), seen);
    }
}

#[tokio::test]
async fn a_step_whose_future_is_not_polled_holds_up_no_other_one() {
    use idempotency_core::record::{Attribute, Data, RecordId};
    use idempotency_core::store::{Condition, Store as _, StoreReply, StoreRequest, Write};
    let value = replies(bulk("idempotency 1\0\0\0\x05steps\0\0\0\0"));
    let fake = Fake::new(vec![value; 4]).await;
    let url = format!("redis://{}", fake.address);
    let store = crate::ValkeyStore::builder(url).build().unwrap();
    let (id, has_steps) = (RecordId::new("a"), Condition::Exists(Attribute::Steps));
    let step = |name: &str| Write::Step {
        name: name.to_owned(),
        result: Data::new("1"),
    };
    let (first, second, log) = (step("a"), step("b"), SendLog::new());
    let send = |write| store.send(StoreRequest::write(&id, write, &has_steps), &log);
    assert!(store.record(&id).await.unwrap().is_some());
    tokio::time::pause();
    // Once, so that it has begun.
    let mut first = send(&first);
    let polled =
        std::future::poll_fn(|context| std::task::Poll::Ready(first.as_mut().poll(context)));
    assert!(polled.await.is_pending());
    let second = timeout(Duration::from_secs(9), send(&second)).await;
    assert!(
        matches!(second, Ok(StoreReply::Applied { .. })),
        "{second:?}"
    );
}

#[tokio::test]
async fn a_listing_follows_the_keys_that_a_server_is_getting() {
    let keys = "*2\r\n$5\r\np:{a}\r\n$5\r\np:{b}\r\n";
    let record = || replies("$13\r\nidempotency 1\r\n");
    let (getting, having) = (Fake::new(vec![]).await, Fake::new(vec![]).await);
    let moved = || replies(format!("-MOVED 7 {}\r\n", having.address));
    let ask = || replies(format!("-ASK 7 {}\r\n", getting.address));
    getting.does(vec![
        slots(&getting.address),
        replies("$11\r\nrole:master\r\n"),
        replies(format!("*2\r\n$1\r\n0\r\n{keys}")),
        slots(&getting.address),
        moved(),
        record(),
        moved(),
        slots(&having.address),
        record(),
    ]);
    having.does(vec![ask()]);
    let url = format!("redis://{}", getting.address);
    let store = crate::ValkeyStore::builder(url)
        .prefix("p")
        .build()
        .unwrap();
    let request = idempotency_core::store::ScanRequest {
        prefix: "",
        limit: 10,
        after: None,
        filter: None,
        consistency: idempotency_core::store::Consistency::Strong,
    };
    let page = idempotency_core::store::StoreScan::scan(&store, request).await;
    let page = page.unwrap();
    let ids: Vec<_> = page.records.iter().map(|(id, _)| id.as_str()).collect();
    assert_eq!((ids, page.next), (vec!["a", "b"], None));
}
