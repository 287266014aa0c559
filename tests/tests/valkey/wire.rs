//! Whole calls over a connection that loses requests and replies, delays them, and closes.

use std::time::Duration;

use idempotency_core::record::{Attribute, Record, Status};
use idempotency_core::store::{Condition, Operand, ScanRequest, StoreReply, StoreScan as _, Write};
use idempotency_lambda::{BoxError, ErrorKind};
use idempotency_testkit::store::StoreExt;
use idempotency_tests::End;
use idempotency_tests::valkey::Server;
use idempotency_tests::{Proxy, WireFault};
use serde_json::json;

use super::{Calls, charge, plant, record_key, started, store};

const FAULTS: [WireFault; 7] = [
    WireFault::LoseRequest,
    WireFault::CutRequest,
    WireFault::LoseReply,
    WireFault::CutReply,
    WireFault::Delay(Duration::from_millis(50)),
    WireFault::DelayReply(Duration::from_millis(50)),
    WireFault::Late(Duration::from_millis(50)),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_does_not_notice_one_fault_of_the_claim_or_of_the_completion()
-> Result<(), BoxError> {
    let server = Server::start(&[])?;
    let proxy = Proxy::start(server.address()).await?;
    let store = started(&proxy.url()).await;
    for (number, fault) in FAULTS.into_iter().enumerate() {
        for request in [1, 2] {
            let (calls, order) = (Calls::default(), format!("{number}-{request}"));
            proxy.inject_at(request, fault);
            let first = calls.call(&store, order.as_str()).await;
            let what = format!("{fault:?} of request {request}");
            assert!(
                matches!(first, End::Ran(1) | End::Replayed(1)),
                "{what}: {first:?}"
            );
            assert_eq!(calls.call(&store, order).await, End::Replayed(1), "{what}");
            assert_eq!(calls.runs(), 1, "{what}");
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_does_not_notice_one_fault_of_the_check_before_the_first_claim()
-> Result<(), BoxError> {
    let server = Server::start(&[])?;
    let proxy = Proxy::start(server.address()).await?;
    for (number, fault) in FAULTS.into_iter().enumerate() {
        let calls = Calls::default();
        proxy.inject(fault);
        let first = calls.call(&store(&proxy.url()), number.to_string()).await;
        assert_eq!(first, End::Ran(1), "{fault:?}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_handler_runs_while_each_claim_loses_its_reply() -> Result<(), BoxError> {
    let server = Server::start(&[])?;
    let proxy = Proxy::start(server.address()).await?;
    let (store, calls) = (started(&proxy.url()).await, Calls::default());
    proxy.choose(|_| Some(WireFault::LoseReply));
    let first = calls.call(&store, "1").await;
    assert_eq!(first, End::Refused(ErrorKind::StoreFailed));
    // The claim was applied. So a retry meets one, or what its release left.
    proxy.calm();
    let second = calls.call(&store, "1").await;
    let expected = [End::Ran(1), End::Refused(ErrorKind::AlreadyInProgress)];
    assert!(expected.contains(&second), "{second:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_completion_whose_replies_are_all_lost_is_the_response_of_each_duplicate()
-> Result<(), BoxError> {
    let server = Server::start(&[])?;
    let proxy = Proxy::start(server.address()).await?;
    let (store, calls) = (started(&proxy.url()).await, Calls::default());
    let first = calls.call_with(&store, "1", async || {
        proxy.choose(|_| Some(WireFault::LoseReply));
        Ok(())
    });
    assert_eq!(first.await, End::AfterRun(ErrorKind::CompletionUnknown));
    proxy.calm();
    assert_eq!(calls.call(&store, "1").await, End::Replayed(1));
    assert_eq!(calls.runs(), 1);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_that_arrives_late_takes_nothing_from_the_run_that_has_ended()
-> Result<(), BoxError> {
    let server = Server::start(&[])?;
    let proxy = Proxy::start(server.address()).await?;
    let (store, calls) = (started(&proxy.url()).await, Calls::default());
    proxy.inject(WireFault::Late(Duration::from_millis(300)));
    assert_eq!(calls.call(&store, "1").await, End::Ran(1));
    proxy.late_request().await;
    assert_eq!(calls.call(&store, "1").await, End::Replayed(1));
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cut_connection_costs_no_call_its_response() -> Result<(), BoxError> {
    let server = Server::start(&[])?;
    let proxy = Proxy::start(server.address()).await?;
    let (store, calls) = (started(&proxy.url()).await, Calls::default());
    for order in 1..=20_usize {
        let cut = async || {
            proxy.cut();
            Ok(())
        };
        let result = calls.result(&store, order.to_string(), cut).await;
        let text = format!("{result:?}");
        let ended = idempotency_tests::end(result);
        assert!(
            matches!(ended, End::Ran(run) | End::Replayed(run) if run == order),
            "{text}"
        );
    }
    Ok(())
}

#[tokio::test]
async fn each_path_costs_the_documented_round_trips() -> Result<(), BoxError> {
    let server = Server::start(&[])?;
    let proxy = Proxy::start(server.address()).await?;
    let (store, calls) = (started(&proxy.url()).await, Calls::default());
    proxy.requests();
    let commands = || {
        let requests = proxy.requests().into_iter();
        requests.map(|request| request.command).collect::<Vec<_>>()
    };
    // Redis 6.2 has no `SET .. NX GET`, and no Redis below 8.4 has `IFEQ`.
    let version = server.ask(&["INFO", "server"]).text();
    let form = |has: bool| if has { "SET" } else { "EVALSHA" };
    let claim = form(!version.contains("redis_version:6."));
    let swap = form(version.contains("valkey_version:"));
    assert_eq!(calls.call(&store, "1").await, End::Ran(1));
    assert_eq!(commands(), [claim, swap]);
    assert_eq!(calls.call(&store, "1").await, End::Replayed(1));
    assert_eq!(commands(), [claim]);
    // The failure frees the key.
    let fails = calls.call_with(&store, "2", async || Err("declined".into()));
    assert_eq!(fails.await, End::Failed("declined".to_owned()));
    assert_eq!(commands(), [claim, "EVALSHA"]);
    // Another process changes the claim meanwhile.
    let other = super::store(&server.url());
    let changed = calls.call_with(&store, "3", async || {
        super::end_lease(&other, "3").await;
        Ok(())
    });
    assert_eq!(changed.await, End::Ran(3));
    assert_eq!(commands(), [claim, swap, swap]);
    // A server that was restarted does not have the script.
    server.ask(&["SCRIPT", "FLUSH"]);
    let fails = calls.call_with(&store, "4", async || Err("declined".into()));
    assert_eq!(fails.await, End::Failed("declined".to_owned()));
    let expected = match claim {
        "SET" => ["SET", "EVALSHA", "EVAL"],
        _ => ["EVALSHA", "EVAL", "EVALSHA"],
    };
    assert_eq!(commands(), expected);
    Ok(())
}

#[tokio::test]
async fn a_completion_meets_what_is_there_and_not_what_its_process_remembers()
-> Result<(), BoxError> {
    let server = Server::start(&[])?;
    let (store, calls) = (started(&server.url()).await, Calls::default());
    let deleted = calls.call_with(&store, "1", async || {
        server.ask(&["DEL", &record_key("1")]);
        Ok(())
    });
    // The response is restored.
    assert_eq!(deleted.await, End::Ran(1));
    assert_eq!(calls.call(&store, "1").await, End::Replayed(1));
    let completed = [
        ("expiration", "9999999999"),
        ("status", "COMPLETED"),
        ("data", "77"),
    ];
    let taken_over = calls.call_with(&store, "2", async || {
        plant(&server, "2", &completed);
        Ok(())
    });
    assert_eq!(taken_over.await, End::Replayed(77));
    assert_eq!(calls.call(&store, "2").await, End::Replayed(77));
    Ok(())
}

/// Results and events can be long, and personal.
#[tokio::test]
async fn a_listing_gets_no_response_and_no_event_that_is_long() -> Result<(), BoxError> {
    let server = Server::start(&[])?;
    let store = started(&server.url()).await;
    let long = "x".repeat(100_000);
    let fields = [("status", "COMPLETED"), ("data", &*long), ("event", &*long)];
    plant(&server, "1", &fields);
    let sent = || {
        let stats = server.ask(&["INFO", "stats"]).text();
        let mut lines = stats.lines();
        let sent = lines.find_map(|line| line.strip_prefix("total_net_output_bytes:"));
        sent.unwrap().parse::<usize>().unwrap()
    };
    let listed = async |filter: Option<&Condition>| {
        let request = ScanRequest {
            filter,
            ..ScanRequest::default()
        };
        store.scan(request).await.map(|page| page.records.len())
    };
    let before = sent();
    let status = Operand::status(&Status::InProgress);
    let claimed = Condition::Equals(Attribute::Status, status);
    assert_eq!(listed(Some(&claimed)).await?, 0);
    assert_eq!(listed(None).await?, 1);
    assert!(sent() < before + long.len());
    // Unless the filter asks for it.
    assert_eq!(
        listed(Some(&Condition::Missing(Attribute::Steps))).await?,
        1
    );
    assert_eq!(listed(Some(&Condition::Exists(Attribute::Steps))).await?, 0);
    Ok(())
}

/// It reads the beginning of each value, which can end where a field does.
#[tokio::test]
async fn a_listing_shows_and_compares_each_field_of_a_value_of_any_length() -> Result<(), BoxError>
{
    let server = Server::start(&[])?;
    let store = started(&server.url()).await;
    let mut expected = 0;
    for length in 3_980..4_080 {
        let text = "x".repeat(length);
        let listed = [("failure", &*text), ("decision", "{}")];
        plant(&server, &format!("listed {length}"), &listed);
        let fields = [("data", &*text), ("steps", "")];
        plant(&server, &format!("not listed {length}"), &fields);
        expected += 1;
    }
    for attribute in [Attribute::Decision, Attribute::Steps] {
        let filter = Condition::Exists(attribute);
        let request = ScanRequest {
            filter: Some(&filter),
            ..ScanRequest::default()
        };
        let found = store.scan(request).await?.records.len();
        assert_eq!(found, expected, "{attribute:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_foreign_record_with_an_event_alone_is_there() -> Result<(), BoxError> {
    let server = Server::start(&[])?;
    let store = started(&server.url()).await;
    plant(&server, "1", &[("event", "x")]);
    let id = idempotency_tests::id(&charge(), &json!("1"));
    let put = Write::Put(Record::default());
    let reply = store.write(&id, put, &Condition::NoRecord).await;
    let there = matches!(
        reply,
        StoreReply::ConditionFailed {
            existing: Some(_),
            ..
        }
    );
    assert!(there, "{reply:?}");
    Ok(())
}
