//! Whole calls over a connection that loses requests and replies, delays them, and closes.

use std::time::Duration;

use idempotency_core::record::{Attribute, Record, Status};
use idempotency_core::store::{
    Change, Condition, Operand, ScanRequest, StoreReply, StoreScan as _, Write,
};
use idempotency_core::time::EpochSeconds;
use idempotency_lambda::{BoxError, ErrorKind};
use idempotency_testkit::store::StoreExt;
use idempotency_tests::End;
use idempotency_tests::valkey::Server;
use idempotency_tests::{Proxy, WireFault};
use serde_json::json;

use super::{Calls, charge, record_key, started, store};

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
    // A process sends each script whole once.
    for command in ["EVAL", "EVALSHA"] {
        assert!(matches!(calls.call(&store, command).await, End::Ran(_)));
        assert_eq!(commands(), [command, command]);
        assert!(matches!(
            calls.call(&store, command).await,
            End::Replayed(_)
        ));
        assert_eq!(commands(), ["EVALSHA"]);
        let order = format!("declined {command}");
        let fails = calls.call_with(&store, order, async || Err("declined".into()));
        assert_eq!(fails.await, End::Failed("declined".to_owned()));
        assert_eq!(commands(), ["EVALSHA", command]);
    }
    // A server that was restarted does not have the script.
    server.ask(&["SCRIPT", "FLUSH"]);
    assert!(matches!(calls.call(&store, "EVAL").await, End::Replayed(_)));
    assert_eq!(commands(), ["EVALSHA", "EVAL"]);
    Ok(())
}

/// Results and events can be long, and personal.
#[tokio::test]
async fn what_no_caller_asked_for_is_not_sent() -> Result<(), BoxError> {
    let server = Server::start(&[])?;
    let (store, calls) = (started(&server.url()).await, Calls::default());
    assert_eq!(calls.call(&store, "1").await, End::Ran(1));
    let long = "x".repeat(100_000);
    for name in ["data", "event"] {
        server.ask(&["HSET", &record_key("1"), name, &long]);
    }
    let sent = || {
        let stats = server.ask(&["INFO", "stats"]).text();
        let mut lines = stats.lines();
        let sent = lines.find_map(|line| line.strip_prefix("total_net_output_bytes:"));
        sent.unwrap().parse::<usize>().unwrap()
    };
    let before = sent();
    let status = Operand::Text(Status::InProgress.as_str().to_owned());
    let claimed = Condition::Equals(Attribute::Status, status);
    let request = |filter| ScanRequest {
        filter,
        ..ScanRequest::default()
    };
    assert!(
        store
            .scan(request(Some(&claimed)))
            .await?
            .records
            .is_empty()
    );
    assert_eq!(store.scan(request(None)).await?.records.len(), 1);
    assert!(sent() < before + long.len());

    let before = sent();
    let id = idempotency_tests::id(&charge(), &json!("1"));
    let change = Change {
        set: Record::default(),
        remove: Vec::new(),
    };
    let reply = store.write(&id, Write::Update(change), &claimed).await;
    assert!(
        matches!(reply, StoreReply::ConditionFailed { .. }),
        "{reply:?}"
    );
    // The response is, and the event is not.
    assert!((long.len()..2 * long.len()).contains(&(sent() - before)));
    Ok(())
}

/// The server decides as the protocol does on the record that it returns.
#[tokio::test]
async fn a_foreign_record_with_an_event_alone_is_there_and_numbers_compare_as_they_are_read()
-> Result<(), BoxError> {
    let server = Server::start(&[])?;
    let store = started(&server.url()).await;
    let id = idempotency_tests::id(&charge(), &json!("1"));
    let change = Change {
        set: Record::default(),
        remove: Vec::new(),
    };
    server.ask(&["HSET", &record_key("1"), "event", "x"]);
    let reply = store
        .write(&id, Write::Update(change.clone()), &Condition::NoRecord)
        .await;
    let there = matches!(
        reply,
        StoreReply::ConditionFailed {
            existing: Some(_),
            ..
        }
    );
    assert!(there, "{reply:?}");
    for text in [
        "7",
        "7.0",
        "7.999",
        "007.5",
        "-7",
        "-007",
        "-7.5",
        "-0",
        "7.",
        "7.x",
        "+7",
        "7e0",
        "",
        " 7",
        "9223372036854775807",
        "9223372036854775808",
        "-9223372036854775808",
        "-9223372036854775809",
    ] {
        server.ask(&["HSET", &record_key("1"), "v", "1", "expiration", text]);
        let StoreReply::Found {
            record: Some(record),
            ..
        } = store.get(&id).await
        else {
            panic!("`{text}` is there");
        };
        for number in [7, 8, -7, -8, 0, i64::MAX, i64::MIN] {
            let at = || Operand::Seconds(EpochSeconds::new(number));
            for condition in [
                Condition::Equals(Attribute::Expiration, at()),
                Condition::Differs(Attribute::Expiration, at()),
                Condition::Below(Attribute::Expiration, at()),
            ] {
                let reply = store
                    .write(&id, Write::Update(change.clone()), &condition)
                    .await;
                let is_applied = matches!(reply, StoreReply::Applied { .. });
                let holds = condition.holds(Some(&record));
                assert_eq!(is_applied, holds, "{text}: {condition:?}");
            }
        }
    }
    Ok(())
}
