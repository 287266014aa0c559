//! The example functions. Each runs in its own processes: this program, started again with a variable that names the role.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, anyhow};
use idempotency_testkit::lambda::FunctionSpec;

const ROLE: &str = "DEMO_FUNCTION";

/// The function that a process runs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Role {
    Payment,
    Orders,
    Shipping,
    Ledger,
    Http,
}

impl Role {
    const ALL: [Self; 5] = [
        Self::Payment,
        Self::Orders,
        Self::Shipping,
        Self::Ledger,
        Self::Http,
    ];

    /// Returns the role of this process; `None` in the demo itself.
    pub(crate) fn of_this_process() -> Option<Self> {
        let name = std::env::var(ROLE).ok()?;
        Self::ALL.into_iter().find(|role| role.name() == name)
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Payment => "payment",
            Self::Orders => "orders",
            Self::Shipping => "shipping",
            Self::Ledger => "ledger",
            Self::Http => "http-api",
        }
    }

    /// Returns the line that the handler logs each time it begins.
    pub(crate) fn first_line(self) -> &'static str {
        match self {
            Self::Payment => "charging the card",
            Self::Orders => "reserving stock",
            Self::Shipping => "booking a parcel",
            Self::Ledger => "posting the entry",
            Self::Http => "refunding the payment",
        }
    }

    /// Runs the function until Lambda ends the process.
    pub(crate) async fn serve(self) -> Result<()> {
        tracing_subscriber::fmt().with_ansi(false).init();
        match self {
            Self::Payment => payment::start().await,
            Self::Orders => orders::start().await,
            Self::Shipping => shipping::start().await,
            Self::Ledger => ledger::start().await,
            Self::Http => http_api::start().await,
        }
        .map_err(|error| anyhow!(error))
    }

    /// Returns the function, with the command that starts its processes.
    pub(crate) fn function(self) -> Result<FunctionSpec> {
        // The link survives a rebuild during the run; the path does not.
        let link = Path::new("/proc/self/exe");
        let program = if link.exists() {
            link.to_owned()
        } else {
            std::env::current_exe().context("the path of this program could not be found")?
        };
        Ok(FunctionSpec::new(self.name(), Command::new(program)).env(ROLE, self.name()))
    }
}
