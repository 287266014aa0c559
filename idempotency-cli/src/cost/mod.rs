//! `idempotency cost`: what each path of a call costs, in units and in money, as Markdown tables or as JSON.

mod capacity;
mod figures;
mod table;

use std::io::Write;

use idempotency_core::protocol::policy::Lookup;

use crate::arguments::CostArguments;
use crate::exit::{Exit, Failure};
use crate::json;
use capacity::{Capacity, Path, Prices, RecordSize};
use table::Table;

/// The sizes of responses without `--response`, in bytes.
const RESPONSES: [usize; 5] = [500, 1_000, 4_000, 40_000, 400_000];

/// How many calls the money is for.
const CALLS: f64 = 1e6;

/// The two ways to look for a record.
const LOOKUPS: [Lookup; 2] = [Lookup::ClaimFirst, Lookup::ReadFirst];

/// Prints the tables, or their figures as JSON.
pub(crate) fn print_cost(arguments: &CostArguments) -> Result<Exit, Failure> {
    let responses = match arguments.response.as_slice() {
        [] => RESPONSES.as_slice(),
        given => given,
    };
    let mut output = std::io::stdout().lock();
    let written = if arguments.json {
        let (lookup, duplicates) = (arguments.lookup, &arguments.duplicates);
        let figures = figures::figures(responses, lookup, duplicates, prices(arguments));
        json::write(&mut output, &figures)
    } else {
        let text = tables(arguments, responses);
        write!(output, "{text}").and_then(|()| output.flush())
    };
    written.map_err(Failure::output)?;
    Ok(Exit::Done)
}

/// Returns the tables that the arguments ask for.
fn tables(arguments: &CostArguments, responses: &[usize]) -> String {
    let sizes: Vec<_> = responses
        .iter()
        .map(|bytes| RecordSize::of_response(*bytes))
        .collect();
    let lookup = arguments.lookup;
    let columns = responses.iter().map(|bytes| kilobytes(*bytes));
    let columns: Vec<_> = columns.collect();
    let table = |first: &[&str]| Table::new(first.iter().map(|name| (*name).to_owned()), &columns);

    let mut units = table(&["call", "requests"]);
    for path in Path::ALL {
        let cells = sizes.iter().map(|size| shown(path.capacity(lookup, *size)));
        units.row([name(path).to_owned(), requests(path, lookup)], cells);
    }
    let mut text = units.to_string();
    let Some(prices) = prices(arguments) else {
        return text;
    };

    let mut money = table(&["1 000 000 calls"]);
    for path in Path::ALL {
        let cost = |size: &RecordSize| CALLS * prices.of(path.capacity(lookup, *size));
        money.row(
            [name(path).to_owned()],
            sizes.iter().map(|size| amount(cost(size))),
        );
    }
    text.push_str(&format!("\n{money}"));

    let mut shares = table(&["of 1 000 000 calls, duplicates of finished calls"]);
    for percent in &arguments.duplicates {
        for lookup in LOOKUPS {
            let share = percent / 100.0;
            let average = |size: &RecordSize| CALLS * prices.average(lookup, *size, share);
            let first = format!("{percent} %, `{}`", lookup_name(lookup));
            shares.row([first], sizes.iter().map(|size| amount(average(size))));
        }
    }
    let above = |size: &RecordSize| match prices.read_first_pays_above(*size) {
        Some(share) => format!("{:.2} %", share * 100.0),
        None => "never".to_owned(),
    };
    shares.row(
        ["`read-first` is cheaper above".to_owned()],
        sizes.iter().map(above),
    );
    text.push_str(&format!("\n{shares}"));
    text
}

/// Returns the price of one unit of each kind. The arguments are for a million units.
fn prices(arguments: &CostArguments) -> Option<Prices> {
    Some(Prices {
        write: arguments.write_price? / 1e6,
        read: arguments.read_price? / 1e6,
    })
}

fn kilobytes(bytes: usize) -> String {
    let (whole, rest) = (bytes / 1_000, bytes % 1_000);
    match rest {
        0 => format!("{whole} KB"),
        _ => format!("{} KB", format!("{whole}.{rest:03}").trim_end_matches('0')),
    }
}

fn name(path: Path) -> &'static str {
    match path {
        Path::FirstRun => "first run",
        Path::Duplicate => "duplicate of a finished call",
        Path::InProgress => "duplicate of a running call, `reject`",
        Path::Waited => "the same, `wait`, one read",
        Path::Released => "handler failed, `release`",
        Path::Recorded => "handler failed, `record`",
        Path::WarmUp => "cold start",
    }
}

fn lookup_name(lookup: Lookup) -> &'static str {
    match lookup {
        Lookup::ReadFirst => "read-first",
        _ => "claim-first",
    }
}

fn requests(path: Path, lookup: Lookup) -> String {
    let requests = path.requests(lookup).into_iter();
    let shown = requests.map(|request| match request.strip_suffix('!') {
        Some(refused) => format!("{refused}, refused"),
        None => request.to_owned(),
    });
    shown.collect::<Vec<_>>().join("; ")
}

/// Returns write units as `W` and read units as `R`; those that are none are left out.
fn shown(capacity: Capacity) -> String {
    let parts = [(capacity.write, "W"), (capacity.read, "R")];
    let parts = parts.into_iter().filter(|(units, _)| *units > 0.0);
    let parts: Vec<_> = parts
        .map(|(units, kind)| format!("{units} {kind}"))
        .collect();
    parts.join(" + ")
}

/// Returns an amount of money with as many digits as a reader needs.
fn amount(money: f64) -> String {
    let digits = if money < 1.0 {
        4
    } else if money < 10.0 {
        3
    } else if money < 100.0 {
        2
    } else {
        0
    };
    format!("{money:.digits$}")
}

#[cfg(test)]
mod tests;
