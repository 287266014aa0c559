//! Runs the embedded DynamoDB with one empty table, on a port of your choice, until it is stopped.
//!
//! ```console
//! cargo run -q -p idempotency-testkit --example dynamodb -- --port 8000 --table idempotency
//! ```

use idempotency_testkit::dynamodb::{EmbeddedDynamoDb, TableSpec};
use std::error::Error;
use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo run -q -p idempotency-testkit --example dynamodb -- [--port PORT] [--table NAME]
Starts the embedded DynamoDB (port 8000) with one empty table (`idempotency`) and runs until it is stopped (Ctrl-C).";

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let result = match Options::read(std::env::args().skip(1)) {
        Ok(Some(options)) => serve(&options).await,
        Ok(None) => {
            println!("{USAGE}");
            Ok(())
        }
        Err(error) => Err(error),
    };
    let Err(error) = result else {
        return ExitCode::SUCCESS;
    };
    eprintln!("dynamodb: {error}");
    if let Some(cause) = error.source() {
        eprintln!("  caused by: {cause}");
    }
    ExitCode::FAILURE
}

async fn serve(options: &Options) -> Result<(), Box<dyn Error>> {
    let db = EmbeddedDynamoDb::start_on(options.port).await?;
    db.create_table(TableSpec::new(&options.table)).await?;
    println!(
        "DynamoDB listens on {}, with the empty table `{}`; Ctrl-C stops it and discards the data.",
        db.endpoint(),
        options.table
    );
    println!("Set these environment variables for a function:\n");
    println!("export IDEMPOTENCY_TABLE={}", options.table);
    for (name, value) in db.environment() {
        println!("export {name}={value}");
    }
    std::future::pending().await
}

struct Options {
    port: u16,
    table: String,
}

impl Options {
    /// Parses the arguments; `None` if help is requested.
    fn read(mut args: impl Iterator<Item = String>) -> Result<Option<Self>, Box<dyn Error>> {
        let mut options = Self {
            port: 8000,
            table: "idempotency".to_owned(),
        };
        while let Some(arg) = args.next() {
            if matches!(arg.as_str(), "-h" | "--help") {
                return Ok(None);
            }
            let mut value = || {
                let value = args.next();
                value.ok_or_else(|| format!("`{arg}` needs a value\n{USAGE}"))
            };
            match arg.as_str() {
                "--port" => {
                    let port = value()?;
                    options.port = port.parse().map_err(|_| {
                        format!("`--port {port}` is not a port: write a number from 0 to 65535")
                    })?;
                }
                "--table" => options.table = value()?,
                _ => return Err(format!("unknown argument `{arg}`\n{USAGE}").into()),
            }
        }
        Ok(Some(options))
    }
}
