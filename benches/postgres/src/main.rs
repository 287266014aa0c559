//! Measures calls on a server of PostgreSQL: with SQL that is written by hand, and with this framework, on the same pool of one connection and
//! on one of its own. All run in one process, in alternation. `benches/postgres.sh` starts the server.
//!
//! ```console
//! postgres <host:port> [rounds]
//! ```
//!
//! It prints a table, and fails if a ratio is above the limit, or if the framework made more round trips.

mod by_hand;
mod round_trips;

use std::process::ExitCode;
use std::str::FromStr as _;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, ensure};
use beside::{LEASE, LIMIT, MEASURES, Ratio, Took, WINDOW, median};
use idempotency_lambda::postgres::sqlx::postgres::PgConnectOptions;
use idempotency_lambda::postgres::sqlx::{PgConnection, query, query_scalar, raw_sql};
use idempotency_lambda::postgres::{
    Begin as _, MIGRATION, PostgresStore, PostgresStoreBuilder, pool_options,
};
use idempotency_lambda::{BoxError, Call, Deadline, Operation};
use serde::{Deserialize, Serialize};

use by_hand::ByHand;
use round_trips::Counter;

/// The calls of a block.
const CALLS: u64 = 500;

/// The accounts that orders are paid from, and one that gets the money.
const ACCOUNTS: &str = "CREATE TABLE accounts (id bigint PRIMARY KEY, balance bigint NOT NULL);
    INSERT INTO accounts SELECT id, 1000000000000 FROM generate_series(0, 1000) id";

/// The event.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Order {
    pub user: String,
    pub order_id: String,
    pub amount: i64,
    pub account: i64,
}

/// The response.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Receipt {
    pub payment_id: String,
    pub amount: i64,
}

/// The calls that are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Plain,
    /// The handler moves money in the transaction of its response.
    OwnSql,
}

fn order(number: u64, kind: Kind) -> Order {
    Order {
        user: "ana@example.com".to_owned(),
        order_id: format!("{kind:?}-{number:012}"),
        amount: 4_200,
        account: 1 + (number % 1_000) as i64,
    }
}

/// The work, which is the same for both.
fn handler(order: &Order) -> Receipt {
    Receipt {
        payment_id: format!("pay-{}", order.order_id),
        amount: order.amount,
    }
}

/// The work with SQL: moves money from the account of the order, if that has enough.
async fn transfer(transaction: &mut PgConnection, order: &Order) -> Result<Receipt> {
    let balance: i64 = query_scalar("SELECT balance FROM accounts WHERE id = $1 FOR UPDATE")
        .bind(order.account)
        .fetch_one(&mut *transaction)
        .await?;
    ensure!(balance >= order.amount, "declined");
    for (account, amount) in [(order.account, -order.amount), (0, order.amount)] {
        query("UPDATE accounts SET balance = balance + $2 WHERE id = $1")
            .bind(account)
            .bind(amount)
            .execute(&mut *transaction)
            .await?;
    }
    Ok(handler(order))
}

/// One of those that are compared.
enum Side {
    ByHand(ByHand),
    Ours(Operation),
}

/// By hand, and the framework: on the same pool, and on connections of its own. Each has one connection.
const SIDES: usize = 3;

impl Side {
    fn all(url: &str, prefix: &str) -> Result<[Self; SIDES]> {
        // As the store does in its statements: what another transaction holds is waited for no longer than a lease.
        let lease = format!("{}s", LEASE.as_secs());
        let limits = ["lock_timeout", "idle_in_transaction_session_timeout"];
        let options = PgConnectOptions::from_str(url)?.options(limits.map(|it| (it, &lease)));
        let pool = pool_options().connect_lazy_with(options);
        let shared = PostgresStore::builder().pool(pool.clone());
        Ok([
            Self::ByHand(ByHand(pool)),
            Self::ours(shared, format!("{prefix}::shared"))?,
            Self::ours(PostgresStore::builder().url(url), format!("{prefix}::own"))?,
        ])
    }

    fn ours(store: PostgresStoreBuilder, prefix: String) -> Result<Self> {
        let store = store.build().map_err(|error| anyhow!("{error}"))?;
        let operation = Operation::builder(prefix)
            .key("[user, order_id]")
            .validate("amount")
            .expires_after(WINDOW)
            .lease(LEASE)
            .store(Arc::new(store))
            .build();
        Ok(Self::Ours(operation.map_err(|error| anyhow!("{error}"))?))
    }

    async fn charge(&self, order: &Order, kind: Kind) -> Result<(Receipt, bool)> {
        let operation = match self {
            Self::ByHand(by_hand) => return by_hand.charge(order, kind).await,
            Self::Ours(operation) => operation,
        };
        let outcome = match kind {
            Kind::Plain => {
                let handle = || async { Ok::<_, BoxError>(handler(order)) };
                operation.run(order, Deadline::Inherited, handle).await
            }
            Kind::OwnSql => {
                let handle = |call: Call| async move {
                    let mut transaction = call.begin().await?;
                    let receipt = transfer(&mut transaction, order).await?;
                    transaction.commit_with_response();
                    Ok::<_, BoxError>(receipt)
                };
                operation.run(order, Deadline::Inherited, handle).await
            }
        };
        let outcome = outcome.map_err(|error| anyhow!("{error}"))?;
        let is_replayed = outcome.is_replayed();
        Ok((outcome.into_response(), is_replayed))
    }
}

/// The rows of the table: a name, its calls, and whether they are duplicates.
const ROWS: [(&str, Kind, bool); 3] = [
    ("fresh call", Kind::Plain, false),
    ("duplicate", Kind::Plain, true),
    ("own SQL", Kind::OwnSql, false),
];

/// Makes a block of calls, and checks each response.
async fn block(side: &Side, from: u64, calls: u64, kind: Kind, duplicates: bool) -> Result<Took> {
    let orders: Vec<_> = (from..from + calls).map(|it| order(it, kind)).collect();
    let block = async {
        for order in &orders {
            let (receipt, is_replayed) = side.charge(order, kind).await?;
            ensure!(
                receipt == handler(order) && is_replayed == duplicates,
                "{receipt:?}"
            );
        }
        Ok(())
    };
    beside::measured(orders.len(), block).await
}

/// Returns the round trips of a call for each row of the table and each side, when they have prepared their statements.
async fn round_trips(server: &str) -> Result<[[f64; SIDES]; ROWS.len()]> {
    let counter = Counter::start(server)?;
    let sides = Side::all(&url(counter.address()), "bench::count")?;
    let mut trips = [[0.0; SIDES]; ROWS.len()];
    let calls = 20;
    // No number of these is one of the measured blocks. The first time statements are prepared.
    for from in [u64::MAX / 2, u64::MAX / 4] {
        for (at, side) in sides.iter().enumerate() {
            for (row, (_, kind, duplicates)) in ROWS.into_iter().enumerate() {
                let before = counter.read();
                block(side, from, calls, kind, duplicates).await?;
                trips[row][at] = (counter.read() - before) as f64 / calls as f64;
            }
        }
    }
    Ok(trips)
}

fn url(address: &str) -> String {
    format!("postgres://postgres@{address}/postgres?sslmode=disable")
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<ExitCode> {
    let mut arguments = std::env::args().skip(1);
    let server = arguments.next().context("name the address of the server")?;
    let rounds: u64 = arguments.next().map_or(Ok(60), |rounds| rounds.parse())?;
    let sides = Side::all(&url(&server), "bench::charge")?;
    if let Side::ByHand(ByHand(pool)) = &sides[0] {
        let clean = "DROP TABLE IF EXISTS by_hand, idempotency, accounts";
        for statements in [clean, by_hand::TABLE, MIGRATION, ACCOUNTS] {
            raw_sql(statements).execute(pool).await?;
        }
    }
    let trips = round_trips(&server).await?;
    let mut took = Vec::new();
    // The first round prepares statements and fills caches.
    for round in 0..=rounds {
        let mut of_round = [[Took::default(); SIDES]; ROWS.len()];
        // By turns each is first.
        for turn in 0..SIDES {
            let at = (round as usize + turn) % SIDES;
            for (of_row, (_, kind, duplicates)) in of_round.iter_mut().zip(ROWS) {
                of_row[at] = block(&sides[at], round * CALLS, CALLS, kind, duplicates).await?;
            }
        }
        took.push(of_round);
    }
    took.remove(0);

    println!(
        "| | by hand | with the framework, on the same pool | ratio: median (10 % to 90 %) | with connections of its own | ratio | limit |"
    );
    println!("|---|---|---|---|---|---|---|");
    let mut is_met = true;
    for (row, (call, ..)) in ROWS.into_iter().enumerate() {
        for (measure, of) in MEASURES {
            let of_side = |side: usize| took.iter().map(move |it| of(&it[row][side]));
            print!("| {call}, {measure} | {:.1} µs ", median(of_side(0)));
            for side in 1..SIDES {
                let ratio = Ratio::of(of_side(side), of_side(0));
                is_met &= ratio.is_within_limit();
                print!("| {:.1} µs | {ratio} ", median(of_side(side)));
            }
            println!("| {LIMIT:.2} |");
        }
        let [by_hand, shared, own] = trips[row];
        println!("| {call}, round trips | {by_hand:.2} | {shared:.2} | | {own:.2} | | not more |");
        // The last test of a connection can be counted in the next block.
        is_met &= shared.round() <= by_hand.round() && own.round() <= by_hand.round();
    }
    Ok(beside::end(is_met, rounds))
}
