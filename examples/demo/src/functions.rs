//! The example functions, each in processes of its own: this program, started again with a variable that names the role.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, anyhow};
use idempotency_testkit::lambda::Function;

const ROLE: &str = "DEMO_FUNCTION";

/// Which function a process is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Role {
    Payment,
    Orders,
    Shipping,
}

impl Role {
    const ALL: [Self; 3] = [Self::Payment, Self::Orders, Self::Shipping];

    /// The role this process was started in; `None` in the demo itself.
    pub(crate) fn of_this_process() -> Option<Self> {
        let name = std::env::var(ROLE).ok()?;
        Self::ALL.into_iter().find(|role| role.name() == name)
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Payment => "payment",
            Self::Orders => "orders",
            Self::Shipping => "shipping",
        }
    }

    /// The line that the handler logs each time it begins.
    pub(crate) fn first_line(self) -> &'static str {
        match self {
            Self::Payment => "charging the card",
            Self::Orders => "reserving stock",
            Self::Shipping => "booking a parcel",
        }
    }

    /// Is the function, until Lambda ends it.
    pub(crate) async fn serve(self) -> Result<()> {
        tracing_subscriber::fmt().with_ansi(false).init();
        match self {
            Self::Payment => payment::start().await,
            Self::Orders => orders::start().await,
            Self::Shipping => shipping::start().await,
        }
        .map_err(|error| anyhow!(error))
    }

    /// What a Lambda starts as this function.
    pub(crate) fn function(self) -> Result<Function> {
        // The link survives a rebuild during the run; the path does not.
        let link = Path::new("/proc/self/exe");
        let program = if link.exists() {
            link.to_owned()
        } else {
            std::env::current_exe().context("this program's own path could not be found")?
        };
        Ok(Function::new(self.name(), Command::new(program)).env(ROLE, self.name()))
    }
}
