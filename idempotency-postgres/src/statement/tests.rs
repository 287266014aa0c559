use idempotency_core::record::{Data, Field, OwnerToken, RecordedSteps, Status};
use idempotency_core::store::{Change, Operand};
use idempotency_core::time::{EpochMillis, EpochSeconds};

use sqlx::Arguments as _;

use super::*;

const WAIT: Duration = Duration::from_millis(1_500);

fn table() -> TableName {
    TableName::new("`table`", "shop.idempotency").unwrap()
}

/// Returns the text of a write, and the number of its parameters.
fn written(write: &Write, condition: &Condition) -> (String, usize) {
    let id = RecordId::new("pay#1");
    let record = RecordWrite {
        id: &id,
        write,
        condition,
    };
    let statement = super::write(&table(), record, WAIT, false);
    (statement.text, statement.arguments.unwrap().len())
}

fn claim() -> Write {
    Write::Put(Record {
        expiration: Field::Value(EpochSeconds::new(60)),
        status: Field::Value(Status::InProgress),
        ..Record::default()
    })
}

fn rendered(condition: &Condition) -> String {
    condition::render(condition, &mut Parameters::new())
}

#[test]
fn each_condition_is_true_or_false_and_its_operand_is_a_parameter() {
    use Attribute::{Data, Expiration, Failure, Owner, Steps};
    use Condition::{All, Any, Below, Differs, Equals, Exists, Missing, NoRecord};
    let text = || Operand::Text("'; DROP".to_owned());
    let seconds = || Operand::Seconds(EpochSeconds::new(7));
    let millis = || Operand::Millis(EpochMillis::new(7));
    for (condition, expected) in [
        (NoRecord, "FALSE"),
        (Exists(Failure), "failure IS NOT NULL"),
        (Missing(Steps), "steps IS NULL"),
        (Equals(Owner, text()), "owner IS NOT DISTINCT FROM $1"),
        (Differs(Data, text()), "data IS DISTINCT FROM $1"),
        (
            Below(Expiration, seconds()),
            "coalesce(expiration < $1, FALSE)",
        ),
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
            "(failure IS NOT NULL AND (FALSE OR owner IS NOT DISTINCT FROM $1))",
        ),
    ] {
        assert_eq!(rendered(&condition), expected, "{condition:?}");
    }
}

#[test]
fn a_claim_is_this_statement() {
    let condition = Condition::Any(vec![
        Condition::NoRecord,
        Condition::Missing(Attribute::Owner),
    ]);
    let (text, parameters) = written(&claim(), &condition);
    let columns = "expiration, in_progress_expiration, status, data, validation, owner, failure, operation, decision, steps, undo";
    let mark = text.split('\'').find(|part| part.len() == 16).unwrap();
    let expected = format!(
        "WITH r AS MATERIALIZED (SELECT xmin AS version, (FALSE OR owner IS NULL) AS held, {columns} FROM \"shop\".\"idempotency\" \
         WHERE id = $1 AND (SELECT CASE WHEN $5 = '{mark}' THEN set_config('lock_timeout', $4, true) \
         ELSE (('another statement than ' || $5)::bigint)::text END) IS NOT NULL), \
         w AS (UPDATE \"shop\".\"idempotency\" AS t SET expiration = $2, in_progress_expiration = NULL, status = $3, data = NULL, \
         validation = NULL, owner = NULL, failure = NULL, operation = NULL, decision = NULL, event = NULL, steps = NULL, undo = NULL \
         FROM r WHERE t.id = $1 AND r.held AND t.xmin = r.version RETURNING 1), \
         i AS (INSERT INTO \"shop\".\"idempotency\" (id, expiration, status) SELECT $1, $2, $3 WHERE NOT EXISTS (SELECT FROM r) \
         ON CONFLICT (id) DO NOTHING RETURNING 1) SELECT a.applied, r.held, r.{} \
         FROM (SELECT EXISTS (SELECT FROM w) OR EXISTS (SELECT FROM i) AS applied) a LEFT JOIN r ON true",
        columns.replace(", ", ", r.")
    );
    assert_eq!(text, expected);
    assert_eq!(parameters, 5);
}

#[test]
fn a_write_whose_condition_needs_a_record_inserts_none() {
    let held = Condition::Exists(Attribute::Owner);
    assert!(written(&claim(), &Condition::NoRecord).0.contains("INSERT"));
    assert!(!written(&claim(), &held).0.contains("INSERT"));
    assert!(
        !written(&Write::Delete, &Condition::NoRecord)
            .0
            .contains("INSERT")
    );
    let step = Write::Step {
        name: "a".to_owned(),
        result: Data::new("1"),
    };
    let (step, parameters) = written(&step, &Condition::All(Vec::new()));
    assert!(step.contains("SET steps = t.steps || ARRAY[$2, $3] FROM r WHERE t.id = $1 AND t.steps IS NOT NULL AND r.held"));
    assert!(!step.contains("INSERT"));
    assert_eq!(parameters, 5);
}

#[test]
fn an_update_sets_and_removes_each_column_once_and_the_removal_counts() {
    let set = Record {
        owner: Field::Value(OwnerToken::from_bytes([7; 16])),
        steps: Field::Value(RecordedSteps::default()),
        ..Record::default()
    };
    let remove = vec![Attribute::Owner, Attribute::Failure, Attribute::Owner];
    let (text, _) = written(&Write::Update(Change { set, remove }), &Condition::NoRecord);
    assert!(
        text.contains("SET steps = $2, owner = NULL, failure = NULL FROM r"),
        "{text}"
    );
    assert!(text.contains("(id, steps) SELECT $1, $2 WHERE"), "{text}");
    let nothing = Write::Update(Change::default());
    assert!(
        written(&nothing, &Condition::NoRecord)
            .0
            .contains("SET id = t.id FROM r")
    );
}

#[test]
fn no_value_of_a_call_is_in_the_text() {
    let secret = "s3cr3t";
    let record = Record {
        data: Field::Value(Data::new(secret)),
        failure: Field::Value(secret.to_owned()),
        ..Record::default()
    };
    let condition = Condition::Equals(Attribute::Failure, Operand::Text(secret.to_owned()));
    let step = Write::Step {
        name: secret.to_owned(),
        result: Data::new(secret),
    };
    for write in [Write::Put(record), step] {
        assert!(!written(&write, &condition).0.contains(secret));
    }
    let id = RecordId::new(secret);
    assert!(!read(&table(), &id, columns::read()).text.contains(secret));
    let page = ScanRequest {
        prefix: secret,
        after: Some(secret),
        filter: Some(&condition),
        ..ScanRequest::default()
    };
    assert!(!scan(&table(), page).text.contains(secret));
}

#[test]
fn the_mark_of_a_statement_says_which_one_it_is() {
    let mark = |condition: &Condition| {
        let (text, _) = written(&claim(), condition);
        text.split('\'')
            .find(|part| part.len() == 16)
            .unwrap()
            .to_owned()
    };
    let below = |at| {
        let at = Operand::Seconds(EpochSeconds::new(at));
        Condition::Below(Attribute::Expiration, at)
    };
    assert_eq!(mark(&below(1)), mark(&below(2)));
    assert_ne!(
        mark(&below(1)),
        mark(&Condition::Exists(Attribute::Expiration))
    );
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
            "{begin}; SET LOCAL lock_timeout = {limit}; SET LOCAL idle_in_transaction_session_timeout = {limit}"
        );
        assert_eq!(super::begin(Some(Duration::from_millis(left))), expected);
    }
}
