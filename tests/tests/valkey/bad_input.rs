//! What a wrong server, a wrong login and a wrong setting get: an error at the start or in the call that says what to do.

use idempotency_core::store::{ScanRequest, Store, StoreReply, StoreScan as _};
use idempotency_lambda::BoxError;
use idempotency_testkit::store::StoreExt;
use idempotency_tests::End;
use idempotency_tests::valkey::Server;
use serde_json::json;

use super::{Calls, charge, plant, record_key, started, store};

/// Returns the error of the start, then that of a call, which does not run its handler.
async fn said(url: &str) -> [String; 2] {
    let (store, calls) = (store(url), Calls::default());
    let start = store.warm_up(false).await.err();
    let start = start.map_or_else(String::new, |error| error.to_string());
    let call = calls.error(&store, "1").await;
    assert_eq!(calls.runs(), 0, "{call}");
    assert!(call.contains("the handler did not run"), "{call}");
    for text in [&start, &call] {
        assert!(
            !text.contains("s3cr3t") && !text.contains("wr0ng"),
            "{text}"
        );
        assert!(text.is_empty() || is_explained(text), "{text}");
    }
    [start, call]
}

/// Returns true if the guide's table of errors has words of this text.
pub(super) fn is_explained(text: &str) -> bool {
    let page = include_str!("../../../docs/guide/valkey.md");
    let (_, rows) = page.split_once("| the error says | do |\n").unwrap();
    let rows = rows.lines().take_while(|line| line.starts_with('|'));
    let said = rows.filter_map(|row| row.split('|').nth(1));
    let mut words = said.flat_map(|said| said.split('`').skip(1).step_by(2));
    words.any(|words| text.contains(words))
}

/// Asserts that the start and a call have these texts. An empty one: the start finds nothing.
async fn assert_said(url: &str, at_start: &str, in_call: &str) {
    let [start, call] = said(url).await;
    assert_eq!(start.is_empty(), at_start.is_empty(), "{start}");
    assert!(start.contains(at_start), "{start}");
    assert!(call.contains(in_call), "{call}");
}

#[tokio::test]
async fn a_wrong_login_says_which_setting_to_check() -> Result<(), BoxError> {
    let (plain, secret) = (
        Server::start(&[])?,
        Server::start(&["--requirepass", "s3cr3t"])?,
    );
    let with = |server: &Server, user: &str| server.url().replace("//", &format!("//{user}@"));
    let refused = "`: check IDEMPOTENCY_VALKEY_USER and IDEMPOTENCY_VALKEY_PASSWORD";
    assert_said(
        &secret.url(),
        "`NOAUTH Authentication required.`: set IDEMPOTENCY_VALKEY_PASSWORD",
        "NOAUTH",
    )
    .await;
    assert_said(&with(&secret, ":wr0ng"), refused, refused).await;
    assert_said(&with(&secret, "wr0ng:s3cr3t"), refused, refused).await;
    assert_said(&with(&plain, ":s3cr3t"), refused, refused).await;
    let right = store(&with(&secret, ":s3cr3t"));
    assert_eq!(Calls::default().error(&right, "1").await, "");
    Ok(())
}

#[tokio::test]
async fn a_server_that_asks_for_a_password_after_the_start_says_so() -> Result<(), BoxError> {
    let mut server = Server::start(&[])?;
    let (store, calls) = (started(&server.url()).await, Calls::default());
    server.kill()?;
    server.spawn_again(&["--requirepass", "s3cr3t"])?;
    // In them the store sees that its connection is closed, also if the server was quick.
    for _ in 0..2 {
        tokio::task::yield_now().await;
    }
    while !server.ask(&["PING"]).text().starts_with("NOAUTH") {
        tokio::task::yield_now().await;
    }
    let error = calls.error(&store, "1").await;
    let text = "`NOAUTH Authentication required.`: set IDEMPOTENCY_VALKEY_PASSWORD";
    assert!(error.contains(text), "{error}");
    assert_eq!(calls.runs(), 0);
    Ok(())
}

#[tokio::test]
async fn a_server_with_all_its_connections_is_not_a_wrong_login() -> Result<(), BoxError> {
    let server = Server::start(&["--requirepass", "s3cr3t"])?;
    let _one = std::net::TcpStream::connect(server.address())?;
    server.ask(&["CONFIG", "SET", "maxclients", "1"]);
    for user in ["", ":s3cr3t@"] {
        let url = server.url().replace("//", &format!("//{user}"));
        // The server closes the connection, at times before it has read a request.
        assert_said(&url, "`maxclients`", "`maxclients`").await;
        let [start, _] = said(&url).await;
        assert!(!start.contains("script"), "{start}");
    }
    Ok(())
}

#[tokio::test]
async fn a_missing_permission_says_which_ones_a_user_needs() -> Result<(), BoxError> {
    let server = Server::start(&[])?;
    let needs = "give its user `+evalsha +eval";
    for (user, lacks) in [
        ("1", "-evalsha"),
        ("2", "-info"),
        ("3", "-set"),
        ("4", "resetkeys"),
        ("5", "-get"),
        ("6", "-getex"),
        ("7", "-del"),
    ] {
        let all = [
            "ACL", "SETUSER", user, "on", ">s3cr3t", "~*", "+@all", lacks,
        ];
        assert_eq!(server.ask(&all).text(), "OK");
        let url = server.url().replace("//", &format!("//{user}:s3cr3t@"));
        assert_said(&url, needs, needs).await;
        // What the start leaves is no record, and does not stay.
        let left = server.ask(&["KEYS", "*"]);
        for key in left.elements() {
            assert_ne!(server.ask(&["TTL", &key.text()]).text(), "-1", "{lacks}");
        }
        let listed = store(&server.url()).scan(ScanRequest::default()).await?;
        assert!(listed.records.is_empty(), "{lacks}: {listed:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_server_that_loses_or_refuses_claims_is_refused() -> Result<(), BoxError> {
    let evicts = Server::start(&["--maxmemory-policy", "allkeys-lru"])?;
    let noeviction = "its `maxmemory-policy` is `allkeys-lru`, so it deletes claims and responses when it is full, and handlers run again: set \
                      it to `noeviction`";
    assert_said(&evicts.url(), noeviction, noeviction).await;
    // A restart is not needed.
    evicts.ask(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
    let store = store(&evicts.url());
    assert_eq!(Calls::default().error(&store, "1").await, "");

    let port = evicts.port().to_string();
    let replica = Server::start(&["--replicaof", "127.0.0.1", &port])?;
    replica.until("master_link_status", "up")?;
    let text = "is a replica, which performs no write: write the endpoint of the primary";
    assert_said(&replica.url(), text, text).await;

    let full = Server::start(&["--maxmemory", "1"])?;
    let text = "the server is full: give it more memory (`maxmemory`)";
    assert_said(&full.url(), text, text).await;
    Ok(())
}

/// As ElastiCache Serverless is, by its documentation: one server with all slots, no `CONFIG`, and a policy that cannot be set.
#[tokio::test]
async fn a_server_without_config_says_its_policy_too() -> Result<(), BoxError> {
    let server = Server::start(&[
        "--cluster-enabled",
        "yes",
        "--maxmemory-policy",
        "volatile-lru",
    ])?;
    let slots: Vec<_> = (0..16_384).map(|slot| slot.to_string()).collect();
    let all = ["CLUSTER", "ADDSLOTS"].into_iter();
    let all: Vec<_> = all.chain(slots.iter().map(String::as_str)).collect();
    assert_eq!(server.ask(&all).text(), "OK");
    while !server
        .ask(&["CLUSTER", "INFO"])
        .text()
        .contains("cluster_state:ok")
    {
        tokio::task::yield_now().await;
    }
    let words = "ACL SETUSER app on >s3cr3t ~* +@all -config -client -replicaof -script";
    let words: Vec<_> = words.split(' ').collect();
    assert_eq!(server.ask(&words).text(), "OK");
    let url = server.url().replace("//", "//app:s3cr3t@");
    let text = "its `maxmemory-policy` is `volatile-lru`";
    assert_said(&url, text, text).await;
    server.ask(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
    assert_eq!(Calls::default().error(&store(&url), "1").await, "");
    Ok(())
}

#[tokio::test]
async fn a_full_server_refuses_claims_and_stores_the_response_of_a_run() -> Result<(), BoxError> {
    let server = Server::start(&[])?;
    let (store, calls) = (store(&server.url()), Calls::default());
    let fill = async || {
        server.ask(&["CONFIG", "SET", "maxmemory", "1"]);
        Ok(())
    };
    assert_eq!(calls.call_with(&store, "1", fill).await, End::Ran(1));
    assert_eq!(calls.call(&store, "1").await, End::Replayed(1));
    // The key of a killed run has room already.
    server.ask(&["CONFIG", "SET", "maxmemory", "0"]);
    plant(
        &server,
        "2",
        &[("status", "INPROGRESS"), ("expiration", "1")],
    );
    server.ask(&["CONFIG", "SET", "maxmemory", "1"]);
    assert_eq!(calls.call(&store, "2").await, End::Ran(2));
    let error = calls.error(&store, "3").await;
    assert!(error.contains("the server is full"), "{error}");
    assert_eq!(calls.runs(), 2);
    Ok(())
}

#[tokio::test]
async fn a_record_of_a_later_version_is_left_alone() -> Result<(), BoxError> {
    let server = Server::start(&[])?;
    let (store, calls) = (started(&server.url()).await, Calls::default());
    let key = record_key("1");
    server.ask(&["SET", &key, "idempotency 2"]);
    let error = calls.error(&store, "1").await;
    assert!(error.contains("a later version of this crate"), "{error}");
    let id = idempotency_tests::id(&charge(), &json!("1"));
    let reply = store.get(&id).await;
    assert!(matches!(reply, StoreReply::Failed { .. }), "{reply:?}");
    assert_eq!(server.ask(&["GET", &key]).text(), "idempotency 2");
    Ok(())
}

#[tokio::test]
async fn a_server_that_is_no_primary_any_more_shows_no_old_record() -> Result<(), BoxError> {
    let server = Server::start(&[])?;
    let (store, calls) = (started(&server.url()).await, Calls::default());
    assert_eq!(calls.call(&store, "1").await, End::Ran(1));
    server.ask(&["REPLICAOF", "127.0.0.1", "1"]);
    let listed = store.scan(ScanRequest::default()).await.unwrap_err();
    assert!(listed.to_string().contains("list again"), "{listed}");
    for order in ["1", "2"] {
        let error = calls.error(&store, order).await;
        assert!(error.contains("it is a replica"), "{error}");
    }
    let id = idempotency_tests::id(&charge(), &json!("1"));
    let reply = store.get(&id).await;
    assert!(matches!(reply, StoreReply::Failed { .. }), "{reply:?}");
    server.ask(&["REPLICAOF", "NO", "ONE"]);
    let listed = store.scan(ScanRequest::default()).await?;
    assert_eq!(listed.records.len(), 1);
    assert_eq!(calls.call(&store, "1").await, End::Replayed(1));
    Ok(())
}

#[tokio::test]
async fn a_key_that_holds_another_type_is_left_alone() -> Result<(), BoxError> {
    let server = Server::start(&[])?;
    let key = record_key("1");
    let text = "another program uses the prefix, so set another one (IDEMPOTENCY_VALKEY_PREFIX, `prefix` of the builder)";
    for write in [
        &["SET", &key, "x"][..],
        &["SET", &key, ""],
        &["HSET", &key, "x", "y"],
    ] {
        server.ask(&["DEL", &key]);
        server.ask(write);
        assert_said(&server.url(), "", text).await;
        let kept = server.ask(&["DUMP", &key]).bytes();
        assert_said(&server.url(), "", text).await;
        assert_eq!(server.ask(&["DUMP", &key]).bytes(), kept);
    }
    Ok(())
}

#[tokio::test]
async fn a_server_that_cannot_be_reached_or_is_another_one_says_what_to_check()
-> Result<(), BoxError> {
    let mut server = Server::start(&[])?;
    let database = "check the database number of the URL";
    assert_said(&format!("{}/99", server.url()), database, database).await;
    let tls = server.url().replace("redis:", "rediss:");
    assert_said(&tls, "and that it serves TLS", "and that it serves TLS").await;
    server.kill()?;
    let address = "check its address, that it runs, the network and the security groups";
    assert_said(&server.url(), address, address).await;
    assert_said("redis://nowhere.invalid", address, address).await;
    Ok(())
}

#[tokio::test]
async fn a_server_that_loads_its_data_is_waited_for() -> Result<(), BoxError> {
    // It looks at its connections after each 1,024 commands.
    let mut server = Server::start(&["--key-load-delay", "200"])?;
    let script = "for i = 1, 8000 do redis.call('SET', KEYS[1], i) end";
    server.ask(&["EVAL", script, "1", "x"]);
    server.kill()?;
    server.spawn_again(&[])?;
    while !server.ask(&["PING"]).text().starts_with("LOADING") {
        tokio::task::yield_now().await;
    }
    let calls = Calls::default();
    let error = calls.error(&store(&server.url()), "1").await;
    assert!(error.is_empty() || error.contains("LOADING"), "{error}");
    server.until("loading", "0")?;
    let ended = calls.error(&store(&server.url()), "2").await;
    assert_eq!(ended, "");
    Ok(())
}
