//! What a question does to a record, and what happens while it is open. The clock and the reply are the test's.

use std::io;
use std::sync::atomic::{AtomicI64, Ordering::SeqCst};

use aws_sdk_dynamodb::types::AttributeValue;
use clap::Parser as _;
use idempotency_core::config::Variables;
use idempotency_core::store::{ScanRequest, StoreErrorKind};
use idempotency_testkit::dynamodb::{EmbeddedDynamoDb, Fault, TableSpec};

use super::*;
use crate::arguments::{Arguments, Command, GlobalArguments};
use crate::operator::Operator;

const KEY: &str = "shop#42b7b4f2921788ea14dac5566e6f06d0";

/// The time at which each test begins, in seconds.
const NOW: i64 = 1_700_000_000;

/// An operator who types a reply. Each look at the clock takes `look` milliseconds, and the question `open`.
struct Typist {
    reply: Option<&'static str>,
    now: AtomicI64,
    look: i64,
    open: i64,
}

impl Default for Typist {
    /// Replies yes at once.
    fn default() -> Self {
        Self {
            reply: Some("y\n"),
            now: AtomicI64::new(NOW * 1_000),
            look: 0,
            open: 0,
        }
    }
}

impl Operator for Typist {
    fn now(&self) -> EpochMillis {
        EpochMillis::new(self.now.fetch_add(self.look, SeqCst))
    }

    fn ask(&self, question: &str) -> io::Result<Option<String>> {
        assert!(question.ends_with("? [y/N] "), "{question}");
        self.now.fetch_add(self.open, SeqCst);
        Ok(self.reply.map(str::to_owned))
    }
}

/// Returns a database with a claim whose lease has ended, and whose window ends this many seconds after [`NOW`].
async fn claimed(window: i64) -> EmbeddedDynamoDb {
    let database = EmbeddedDynamoDb::start().await.unwrap();
    let table = TableSpec::new("idempotency");
    database.create_table(table).await.unwrap();
    let text = |text: &str| AttributeValue::S(text.to_owned());
    let number = |number: i64| AttributeValue::N(number.to_string());
    let item = [
        ("id", text(KEY)),
        ("status", text("INPROGRESS")),
        ("expiration", number(NOW + window)),
        ("in_progress_expiration", number((NOW - 60) * 1_000)),
        ("owner", text("0707")),
    ];
    database.put("idempotency", item).await.unwrap();
    database
}

fn connected(database: &EmbeddedDynamoDb, operator: Typist) -> Connection {
    let table = ("IDEMPOTENCY_TABLE".to_owned(), "idempotency".to_owned());
    let (global, variables) = (GlobalArguments::default(), Variables::from_iter([table]));
    let operator = Box::new(operator);
    Connection::on_table(&global, &variables, database.client(), operator).unwrap()
}

/// Runs the line as this operator. Returns the exit code or the error, and the status of the record and the end of its window.
async fn run(
    line: &str,
    operator: Typist,
    database: &EmbeddedDynamoDb,
) -> (Result<Exit, Failure>, Option<(String, i64)>) {
    let connection = connected(database, operator);
    let line = line.replace("KEY", KEY);
    let arguments = Arguments::try_parse_from(line.split(' ')).unwrap();
    let result = match &arguments.command {
        Command::Resolve(it) => resolve(it, &connection).await,
        Command::Evict(it) => evict(it, &connection).await,
        _ => unreachable!("not one of these"),
    };
    let items = database.items("idempotency").await.unwrap();
    let of = items.first().map(|item| {
        let status = item["status"].as_s().unwrap().clone();
        (status, item["expiration"].as_n().unwrap().parse().unwrap())
    });
    (result, of)
}

const COMPLETE: &str = "idempotency resolve KEY --completed 1 --by ana --reason paid";

#[tokio::test]
async fn only_yes_confirms() {
    for (reply, yes) in [
        (Some("y\n"), true),
        (Some("YES\n"), true),
        (Some("\n"), false),
        (Some(""), false),
        (Some("yep"), false),
        (None, false),
    ] {
        let database = claimed(3_600).await;
        let operator = Typist {
            reply,
            ..Typist::default()
        };
        let (result, left) = run("idempotency evict KEY", operator, &database).await;
        assert_eq!(result.is_ok(), yes, "{reply:?}");
        assert_eq!(left.is_none(), yes, "{reply:?}");
        let refused = result.err().map(|failure| (failure.exit, failure.message));
        let Some((exit, message)) = refused else {
            continue;
        };
        assert_eq!(exit, Exit::Refused);
        let asked = if reply.is_some() {
            "not evicted"
        } else {
            "add `--yes`"
        };
        assert!(message.contains(asked), "{message}");
    }
}

#[tokio::test]
async fn an_eviction_whose_reply_is_lost_is_sent_again_or_may_have_been_done() {
    let maybe = "the record may have been evicted: check with `idempotency get`";
    for (lost, doubt) in [(1, None), (usize::MAX, Some(maybe))] {
        let database = claimed(3_600).await;
        database.inject(Fault::on("DeleteItem").times(lost).drop_reply());
        let evict = run("idempotency evict KEY --yes", Typist::default(), &database);
        let (result, left) = evict.await;
        assert_eq!(left, None);
        match (result, doubt) {
            (Ok(exit), None) => assert_eq!(exit, Exit::Done),
            (Err(failure), Some(doubt)) => {
                assert_eq!(failure.exit, Exit::Failed);
                assert!(failure.message.ends_with(doubt), "{}", failure.message);
            }
            (result, _) => panic!("{lost}: {result:?}"),
        }
    }
}

#[tokio::test]
async fn a_window_that_ends_while_the_question_is_open_is_refused() {
    let database = claimed(600).await;
    let open = 601_000;
    let (result, left) = run(
        COMPLETE,
        Typist {
            open,
            ..Typist::default()
        },
        &database,
    )
    .await;
    let failure = result.unwrap_err();
    assert_eq!(failure.exit, Exit::Usage);
    assert!(
        failure.message.contains("with `--expires-after`"),
        "{}",
        failure.message
    );
    assert_eq!(left, Some(("INPROGRESS".to_owned(), NOW + 600)));
}

#[tokio::test]
async fn a_window_begins_when_the_question_is_answered() {
    let database = claimed(600).await;
    let open = 7_200_000;
    let line = format!("{COMPLETE} --expires-after 1h");
    let (result, left) = run(
        &line,
        Typist {
            open,
            ..Typist::default()
        },
        &database,
    )
    .await;
    assert_eq!(result.unwrap(), Exit::Done);
    assert_eq!(left, Some(("COMPLETED".to_owned(), NOW + 3 * 3_600)));
}

#[tokio::test]
async fn a_response_whose_window_ends_before_it_is_written_is_no_success() {
    let database = claimed(600).await;
    // The clock is read before the question, after it, and after the write.
    let line = format!("{COMPLETE} --yes --expires-after 1s");
    let (result, _) = run(
        &line,
        Typist {
            look: 2_000,
            ..Typist::default()
        },
        &database,
    )
    .await;
    let failure = result.unwrap_err();
    assert_eq!(failure.exit, Exit::Failed);
    let says = "was written, but duplicates do not get the response: its window has expired";
    assert!(failure.message.contains(says), "{}", failure.message);
}

#[tokio::test]
async fn a_prompt_shows_the_form_of_another_response_of_the_operation_and_no_value() {
    let database = claimed(3_600).await;
    let id = RecordId::new(KEY);
    let compare = async || {
        let connection = connected(&database, Typist::default());
        form::compared(&id, r#"{"not": "s3cr3t"}"#, &connection).await
    };
    let alone = compare().await;
    assert!(alone.contains("object {not: text}\n"), "{alone}");
    assert!(alone.contains("no response of `shop`"), "{alone}");
    let text = |text: &str| AttributeValue::S(text.to_owned());
    for (other, decision) in [
        ("shop#1", Some("{}")),
        ("shopping#1", None),
        ("shop#2", None),
    ] {
        let item = [
            ("id", text(other)),
            ("status", text("COMPLETED")),
            ("expiration", AttributeValue::N(NOW.to_string())),
            ("data", text(&format!(r#""s3cr3t of {other}""#))),
        ];
        let decision = decision.map(|trace| ("decision", text(trace)));
        let item = item.into_iter().chain(decision);
        database.put("idempotency", item).await.unwrap();
    }
    let compared = compare().await;
    assert!(compared.ends_with("text  (that of shop#2)\n"), "{compared}");
    assert!(!compared.contains("s3cr3t"), "{compared}");
}

#[tokio::test]
async fn a_listing_of_a_prefix_fails_if_an_item_has_no_id() {
    let database = EmbeddedDynamoDb::start().await.unwrap();
    let table = TableSpec::new("idempotency").partition_key("pk");
    database.create_table(table).await.unwrap();
    let item = [("pk", AttributeValue::S(KEY.to_owned()))];
    database.put("idempotency", item).await.unwrap();
    let connection = connected(&database, Typist::default());
    let request = ScanRequest {
        prefix: "shop#",
        ..ScanRequest::default()
    };
    let error = connection.records().unwrap().scan(request).await;
    assert_eq!(error.unwrap_err().kind(), StoreErrorKind::WrongSchema);
}
