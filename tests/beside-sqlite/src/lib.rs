//! A function whose effects are rows of an SQLite database, and its check by `retry_safety` without the embedded DynamoDB, which links
//! another SQLite.

use idempotency_lambda::{BoxError, Context, LambdaEvent, idempotent};
use rusqlite::Connection;
use serde_json::{Value, json};

/// Books an order. `statement` gets its id and its amount.
///
/// # Errors
///
/// Those of the framework, and of the statement.
#[idempotent(payload = event.payload, key = "order_id", key_prefix = "beside-sqlite.book", validate = "amount")]
pub async fn book(
    event: LambdaEvent<Value>,
    statement: impl Fn(&str, i64) -> rusqlite::Result<usize>,
) -> Result<Value, BoxError> {
    let order = event.payload["order_id"].as_str().unwrap_or_default();
    statement(order, event.payload["amount"].as_i64().unwrap_or_default())?;
    Ok(json!({ "booked": order }))
}

/// Returns the event of an order.
pub fn order(id: &str, amount: i64) -> LambdaEvent<Value> {
    LambdaEvent::new(
        json!({ "order_id": id, "amount": amount }),
        Context::default(),
    )
}

/// Opens a database with the table of the bookings.
///
/// # Errors
///
/// If SQLite refuses.
pub fn open() -> rusqlite::Result<Connection> {
    let database = Connection::open_in_memory()?;
    database.execute(
        "CREATE TABLE bookings (id TEXT UNIQUE, number INTEGER PRIMARY KEY, amount INTEGER)",
        (),
    )?;
    Ok(database)
}

#[cfg(test)]
mod tests {
    use idempotency_testkit::retry_safety::{
        Mutex, SafetyReport, SafetyVerdict, World, retry_safety,
    };

    use super::*;

    /// The database server, which outlives the processes of the function.
    #[derive(Default)]
    struct Server(Mutex<Database>);

    struct Database(Connection);

    impl Default for Database {
        fn default() -> Self {
            Self(open().expect("SQLite opens a database in memory"))
        }
    }

    async fn check(statement: &'static str) -> SafetyReport {
        let check = retry_safety(order("o-1", 5), async move |world: World, event| {
            let server = world.fake::<Server>();
            book(event, |id, amount| {
                server.0.lock().unwrap().0.execute(statement, (id, amount))
            })
            .await
        });
        let bookings = async |world: World| -> i64 {
            let sum = "SELECT coalesce(sum(amount), 0) FROM bookings";
            world
                .fake::<Server>()
                .0
                .lock()
                .unwrap()
                .0
                .query_row(sum, (), |row| row.get(0))
                .unwrap()
        };
        check
            .effect("booked", bookings)
            .another(order("o-2", 7))
            .changed(order("o-1", 6))
            .run()
            .await
    }

    #[tokio::test]
    async fn a_row_that_a_rerun_finds_again_is_safe() {
        let report = check("INSERT OR IGNORE INTO bookings (id, amount) VALUES (?1, ?2)").await;
        report.assert_safe();
        let points: Vec<_> = report.rows().iter().map(|row| row.point.as_str()).collect();
        // Named as the requests of the store on DynamoDB, so that the feature changes no report.
        for point in [
            "PutItem idempotency",
            "UpdateItem idempotency",
            "the response",
        ] {
            assert!(points.contains(&point), "{report}");
        }
    }

    #[tokio::test]
    async fn a_row_that_each_run_adds_is_an_effect_that_happens_twice() {
        let report = check("INSERT INTO bookings (id, amount) VALUES (random(), ?2)").await;
        let first = report.unsafe_rows()[0];
        assert_eq!(
            (first.fault, first.verdict),
            (Some("crash after"), SafetyVerdict::EffectTwice)
        );
        assert_eq!(first.findings, ["`booked` is 10 instead of 5"]);
    }
}
