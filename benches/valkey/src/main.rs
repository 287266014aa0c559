//! Measures fresh calls and duplicates on a server of Valkey: with this framework, and with commands that are written by hand. Both run in
//! one process, in alternation. `benches/valkey.sh` starts the server.
//!
//! ```console
//! valkey <url> [rounds]
//! ```
//!
//! On loopback the CPU decides. In the last rows a network takes at least 0.25 ms in each direction.
//!
//! It prints a table, and fails if a ratio is above the limit or if the two made different numbers of round trips.

mod by_hand;
mod network;

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, ensure};
use beside::{LEASE, LIMIT, MEASURES, Ratio, WINDOW, median};
use idempotency_lambda::{BoxError, Deadline, Operation};
use idempotency_valkey::ValkeyStore;
use redis::aio::MultiplexedConnection;
use serde::{Deserialize, Serialize};

use by_hand::ByHand;

/// The calls of a block, on loopback and over the network.
const CALLS: [u64; 2] = [500, 50];

/// The event.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Order {
    pub user: String,
    pub order_id: String,
    pub amount: u64,
}

/// The response.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Receipt {
    pub payment_id: String,
    pub amount: u64,
}

fn order(number: u64) -> Order {
    Order {
        user: "ana@example.com".to_owned(),
        order_id: format!("order-{number:012}"),
        amount: 4_200,
    }
}

/// The work, which is the same for both.
fn handler(order: &Order) -> Receipt {
    Receipt {
        payment_id: format!("pay-{}", order.order_id),
        amount: order.amount,
    }
}

/// The two that are compared.
enum Side {
    ByHand(ByHand),
    Ours(Operation),
}

impl Side {
    /// Returns both, on this server.
    async fn both(url: &str) -> Result<[Self; 2]> {
        let store = ValkeyStore::builder(url).build();
        let store = store.map_err(|error| anyhow!("{error}"))?;
        let ours = Operation::builder("bench::charge")
            .key("[user, order_id]")
            .validate("amount")
            .expires_after(WINDOW)
            .lease(LEASE)
            .store(Arc::new(store))
            .build()
            .map_err(|error| anyhow!("{error}"))?;
        Ok([Self::ByHand(ByHand::connect(url).await?), Self::Ours(ours)])
    }

    async fn charge(&mut self, order: &Order) -> Result<(Receipt, bool)> {
        let operation = match self {
            Self::ByHand(by_hand) => return by_hand.charge(order).await,
            Self::Ours(operation) => operation,
        };
        let handle = || async { Ok::<_, BoxError>(handler(order)) };
        let outcome = operation.run(order, Deadline::Inherited, handle).await;
        let outcome = outcome.map_err(|error| anyhow!("{error}"))?;
        let is_replayed = outcome.is_replayed();
        Ok((outcome.into_response(), is_replayed))
    }
}

/// What a block of calls took, for each call.
#[derive(Clone, Copy, Default)]
struct Took {
    time: beside::Took,
    round_trips: f64,
}

/// Counts the round trips of the server.
struct Counter(MultiplexedConnection);

impl Counter {
    /// Returns how often the server has read from a connection, without this request.
    async fn reads(&mut self) -> Result<u64> {
        let info: String = redis::cmd("INFO")
            .arg("stats")
            .query_async(&mut self.0)
            .await?;
        let mut lines = info.lines();
        let reads = lines.find_map(|line| line.strip_prefix("total_reads_processed:"));
        Ok(reads
            .context("the server does not count its reads")?
            .parse()?)
    }
}

/// Makes a block of calls, and checks each response.
async fn block(
    side: &mut Side,
    orders: &[Order],
    duplicates: bool,
    counter: &mut Counter,
) -> Result<Took> {
    let reads = counter.reads().await?;
    let block = async {
        for order in orders {
            let (receipt, is_replayed) = side.charge(order).await?;
            ensure!(
                receipt == handler(order) && is_replayed == duplicates,
                "{receipt:?}"
            );
        }
        Ok(())
    };
    let time = beside::measured(orders.len(), block).await?;
    // The request that asks is the last one that it counts.
    let round_trips = (counter.reads().await? - reads - 1) as f64 / orders.len() as f64;
    Ok(Took { time, round_trips })
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<ExitCode> {
    let mut arguments = std::env::args().skip(1);
    let url = arguments.next().context("name the URL of the server")?;
    let rounds: u64 = arguments.next().map_or(Ok(60), |rounds| rounds.parse())?;
    let client = redis::Client::open(url.as_str())?;
    let mut counter = Counter(client.get_multiplexed_async_connection().await?);
    let server = url.trim_start_matches("redis://").to_owned();
    let far = format!("redis://{}", network::between(server)?);

    println!("| | by hand | with the framework | ratio: median (10 % to 90 %) | limit |");
    println!("|---|---|---|---|---|");
    let mut is_met = true;
    let mut from = 0;
    for (url, calls) in [&url, &far].into_iter().zip(CALLS) {
        let is_far = *url == far;
        let mut sides = Side::both(url).await?;
        let mut took = Vec::new();
        // The first round is for connections, scripts and caches.
        for round in 0..=rounds {
            let orders: Vec<_> = (from..from + calls).map(order).collect();
            from += calls;
            let mut of_round = [[Took::default(); 2]; 2];
            // By turns one is first.
            for turn in 0..2 {
                let at = usize::from((round + turn) % 2 == 0);
                for duplicates in [false, true] {
                    let block = block(&mut sides[at], &orders, duplicates, &mut counter);
                    of_round[at][usize::from(duplicates)] = block.await?;
                }
            }
            took.push(of_round);
        }
        is_met &= print(&took[1..], is_far);
    }
    Ok(beside::end(is_met, rounds))
}

/// Prints the rows of some rounds. Returns true if they meet the limits. Over the network the CPU is also that of the network, so it has no row.
fn print(took: &[[[Took; 2]; 2]], is_far: bool) -> bool {
    let mut is_met = true;
    let place = if is_far { ", 0.5 ms away" } else { "" };
    for (at, call) in ["fresh call", "duplicate"].into_iter().enumerate() {
        for (measure, of) in &MEASURES[..if is_far { 1 } else { 2 }] {
            let of_side = |side: usize| took.iter().map(move |it| of(&it[side][at].time));
            let ratio = Ratio::of(of_side(1), of_side(0));
            is_met &= ratio.is_within_limit();
            println!(
                "| {call}{place}, {measure} | {:.1} µs | {:.1} µs | {ratio} | {LIMIT:.2} |",
                median(of_side(0)),
                median(of_side(1)),
            );
        }
        if is_far {
            continue;
        }
        let trips = |side: usize| {
            let trips = took.iter().map(|it| it[side][at].round_trips);
            trips.fold(0.0, f64::max)
        };
        println!(
            "| {call}, round trips | {:.2} | {:.2} | | the same |",
            trips(0),
            trips(1)
        );
        is_met &= trips(0) == trips(1);
    }
    is_met
}
