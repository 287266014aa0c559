use std::sync::Arc;

use idempotency_core::record::{Data, Field, OwnerToken, RecordedSteps, Status};
use idempotency_core::store::{Change, Operand};
use idempotency_core::time::{EpochMillis, EpochSeconds};

use sqlx::Arguments as _;

use super::*;

const WAIT: Duration = Duration::from_millis(1_500);

fn statements() -> Statements {
    Statements::new("\"shop\".\"idempotency\"".to_owned())
}

fn count(statement: Statement) -> (String, usize) {
    let parameters = statement.arguments.unwrap().len();
    (statement.text.to_string(), parameters)
}

/// Returns the text of a change, and the number of its parameters.
fn changed(write: &Write, condition: &Condition) -> (String, usize) {
    let record = RecordWrite {
        id: &RecordId::new("pay#1"),
        write,
        condition,
    };
    count(statements().write(record, Form::Change, WAIT))
}

fn claim() -> Record {
    Record {
        expiration: Field::Value(EpochSeconds::new(60)),
        status: Field::Value(Status::InProgress),
        ..Record::default()
    }
}

fn inserted(record: &Record) -> (String, usize) {
    let record = RecordWrite {
        id: &RecordId::new("pay#1"),
        write: &Write::Put(record.clone()),
        condition: &Condition::NoRecord,
    };
    count(statements().write(record, Form::Insert, WAIT))
}

/// Returns the mark of a text, and what a change with it evaluates, if its last parameter has this number.
fn guard(text: &str, last: usize) -> (String, String) {
    let mark = text.split(&format!("(${last} - ")).nth(1).unwrap();
    let mark = mark.split(')').next().unwrap().to_owned();
    assert!(mark.parse::<i64>().unwrap() > 0);
    let guard = format!(
        "set_config('lock_timeout', coalesce((${last} - {mark})::text, 'another statement than the one that was sent'), true) IS NOT NULL"
    );
    (mark, guard)
}

fn rendered(condition: &Condition) -> String {
    let mut text = String::new();
    condition::render(condition, &mut text, &mut Parameters::default());
    text
}

#[test]
fn the_operand_of_each_condition_is_a_parameter() {
    use Attribute::{Data, Expiration, Failure, Owner, Steps};
    use Condition::{All, Any, Below, Differs, Equals, Exists, Missing, NoRecord};
    let text = || Operand::Text("'; DROP".into());
    let seconds = || Operand::Seconds(EpochSeconds::new(7));
    let millis = || Operand::Millis(EpochMillis::new(7));
    for (condition, expected) in [
        (NoRecord, "FALSE"),
        (Exists(Failure), "failure IS NOT NULL"),
        (Missing(Steps), "steps IS NULL"),
        (Equals(Owner, text()), "owner = $1"),
        (Differs(Data, text()), "data IS DISTINCT FROM $1"),
        (Below(Expiration, seconds()), "expiration < $1"),
        // Two types are never equal, and none is below the other.
        (Equals(Expiration, millis()), "FALSE"),
        (Differs(Steps, text()), "TRUE"),
        (Below(Owner, seconds()), "FALSE"),
        (All(vec![]), "TRUE"),
        (Any(vec![]), "FALSE"),
        (
            All(vec![
                Exists(Failure),
                Any(vec![NoRecord, Equals(Owner, text())]),
            ]),
            "(failure IS NOT NULL AND (FALSE OR owner = $1))",
        ),
    ] {
        assert_eq!(rendered(&condition), expected, "{condition:?}");
    }
}

const ELEMENTS: &str = "expiration::text, in_progress_expiration::text, status, data, validation, owner, failure, operation, decision, NULL, \
     CASE WHEN steps IS NOT NULL THEN '' END, undo] || CASE WHEN array_ndims(steps) > 1 THEN '{NULL}' ELSE steps END";

#[test]
fn a_claim_is_this_statement() {
    let (text, parameters) = inserted(&claim());
    let (mark, guard) = guard(&text, 4);
    let expected = format!(
        "WITH r AS (SELECT ARRAY['{mark}', {ELEMENTS} AS f FROM \"shop\".\"idempotency\" WHERE id = $1), \
         i AS (INSERT INTO \"shop\".\"idempotency\" (id, expiration, status) SELECT $1, $2, $3 WHERE NOT EXISTS (SELECT FROM r) \
         AND {guard} ON CONFLICT (id) DO NOTHING RETURNING ARRAY['{mark}'] AS f) SELECT f FROM r UNION ALL SELECT f FROM i"
    );
    assert_eq!((text, parameters), (expected, 4));
}

#[test]
fn a_claim_on_an_ended_one_is_this_statement() {
    let ended = Condition::Missing(Attribute::Owner);
    let condition = Condition::Any(vec![Condition::NoRecord, ended]);
    let (text, parameters) = changed(&Write::Put(claim()), &condition);
    let (_, guard) = guard(&text, 4);
    let expected = format!(
        "WITH r AS MATERIALIZED (SELECT ARRAY[NULL, {ELEMENTS} AS f, xmin AS version FROM \"shop\".\"idempotency\" \
         WHERE id = $1 AND {guard} AND (FALSE OR owner IS NULL)), \
         w AS (UPDATE \"shop\".\"idempotency\" AS t SET expiration = $2, in_progress_expiration = NULL, status = $3, data = NULL, \
         validation = NULL, owner = NULL, failure = NULL, operation = NULL, decision = NULL, event = NULL, steps = NULL, undo = NULL \
         FROM r WHERE t.id = $1 AND t.xmin = r.version RETURNING 1) SELECT f FROM r, w"
    );
    assert_eq!((text, parameters), (expected, 4));
}

#[test]
fn an_update_sets_and_removes_each_column_once_and_the_removal_counts() {
    let set = Record {
        owner: Field::Value(OwnerToken::from_bytes([7; 16])),
        steps: Field::Value(RecordedSteps::default()),
        ..Record::default()
    };
    let remove = vec![Attribute::Owner, Attribute::Failure, Attribute::Owner];
    let condition = Condition::Exists(Attribute::Status);
    let write = Write::Update(Change { set, remove });
    let (text, parameters) = changed(&write, &condition);
    let (_, guard) = guard(&text, 3);
    let expected = format!(
        "UPDATE \"shop\".\"idempotency\" SET owner = NULL, failure = NULL, steps = $2 WHERE id = $1 AND {guard} AND status IS NOT NULL"
    );
    assert_eq!((text, parameters), (expected, 3));
    let nothing = changed(&Write::Update(Change::default()), &condition).0;
    assert!(nothing.contains("SET id = id WHERE"), "{nothing}");
}

#[test]
fn a_step_is_added_to_those_of_the_record_alone() {
    let step = Write::Step {
        name: "a".to_owned(),
        result: Data::new("1"),
    };
    let (text, parameters) = changed(&step, &Condition::All(Vec::new()));
    assert!(text.contains("SET steps = steps || ARRAY[$2, $3] WHERE id = $1"));
    assert!(text.ends_with(" AND TRUE AND steps IS NOT NULL"));
    assert_eq!(parameters, 4);
}

#[test]
fn a_change_in_a_transaction_asks_for_its_mark_and_leaves_its_limit() {
    let record = RecordWrite {
        id: &RecordId::new("pay#1"),
        write: &Write::Delete,
        condition: &Condition::Exists(Attribute::Status),
    };
    let (text, parameters) = count(statements().write(record, Form::InOpen, WAIT));
    let (begin, end) = text.split_once("CASE WHEN $2 = ").unwrap();
    assert_eq!(
        begin,
        "DELETE FROM \"shop\".\"idempotency\" WHERE id = $1 AND current_setting("
    );
    let end = end.trim_start_matches(|it: char| it.is_ascii_digit());
    assert_eq!(
        end,
        " THEN 'idempotency.transaction' ELSE 'another statement than the one that was sent' END) = 'open' AND status IS NOT NULL"
    );
    assert_eq!(parameters, 2);
}

#[test]
fn the_error_outside_of_a_transaction_is_recognized() {
    assert!(IN_TRANSACTION.contains(&format!("ELSE '{MARK} is not open' END")));
}

#[test]
fn no_value_of_a_call_is_in_the_text() {
    let secret = "s3cr3t";
    let record = Record {
        data: Field::Value(Data::new(secret)),
        failure: Field::Value(secret.to_owned()),
        ..Record::default()
    };
    let condition = Condition::Equals(Attribute::Failure, Operand::Text(secret.into()));
    let step = Write::Step {
        name: secret.to_owned(),
        result: Data::new(secret),
    };
    assert!(!inserted(&record).0.contains(secret));
    for write in [Write::Put(record), step] {
        assert!(!changed(&write, &condition).0.contains(secret));
    }
    let (statements, id) = (statements(), RecordId::new(secret));
    assert!(!statements.read(&id, false).text.contains(secret));
    let page = ScanRequest {
        prefix: secret,
        after: Some(secret),
        filter: Some(&condition),
        ..ScanRequest::default()
    };
    assert!(!statements.scan(page).text.contains(secret));
}

#[test]
fn a_listing_reads_no_response_no_event_and_no_result_of_a_step() {
    let page = statements().scan(ScanRequest::default()).text;
    for column in ["data", "event", "steps"] {
        assert!(!page.contains(column), "{page}");
    }
}

#[test]
fn a_text_is_kept_for_its_shape_and_its_mark_says_which_one_it_is() {
    let statements = statements();
    let text = |condition: &Condition, form| {
        let record = RecordWrite {
            id: &RecordId::new("pay#1"),
            write: &Write::Update(Change::default()),
            condition,
        };
        statements.write(record, form, WAIT).text
    };
    let below = |at| {
        let at = Operand::Seconds(EpochSeconds::new(at));
        Condition::Below(Attribute::Expiration, at)
    };
    let mark = |text: &str| {
        let after = text.split("($3 - ").nth(1);
        let after = after.or_else(|| text.split("WHEN $3 = ").nth(1));
        after.unwrap()[..12].to_owned()
    };
    let first = text(&below(1), Form::Change);
    assert!(Arc::ptr_eq(&first, &text(&below(2), Form::Change)));
    let others = [
        text(&below(1), Form::InOpen),
        text(
            &Condition::Differs(Attribute::Owner, Operand::Text("".into())),
            Form::Change,
        ),
    ];
    for other in others {
        assert_ne!(mark(&first), mark(&other));
    }
    for at in 0..2 * MOST_TEXTS {
        let all = Condition::All(vec![Condition::NoRecord; at]);
        text(&all, Form::Change);
    }
    assert_eq!(statements.texts.lock().unwrap().len(), MOST_TEXTS);
}

#[test]
fn the_end_of_a_prefix_is_after_every_text_with_it() {
    for (prefix, end) in [
        ("", None),
        ("pay#", Some("pay$")),
        ("é", Some("ê")),
        ("a\u{d7ff}", Some("a\u{e000}")),
        ("a\u{10ffff}\u{10ffff}", Some("b")),
        ("\u{10ffff}", None),
    ] {
        assert_eq!(after_prefix(prefix).as_deref(), end, "{prefix:?}");
    }
}

#[test]
fn a_transaction_waits_no_longer_than_its_lease() {
    let begin = "BEGIN; SET LOCAL idempotency.transaction = 'open'";
    assert_eq!(super::begin(None), begin);
    for (left, limit) in [(0, 1_000), (30_000, 30_000), (u64::MAX, 2_147_483_647)] {
        let expected = format!(
            "{begin}; SET LOCAL lock_timeout = '{limit}'; SET LOCAL idle_in_transaction_session_timeout = '{limit}'"
        );
        assert_eq!(super::begin(Some(Duration::from_millis(left))), expected);
    }
}
