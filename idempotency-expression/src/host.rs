//! The variables in which a host says what it runs.

/// The variables in which a host says what it runs. Who starts operations hands them to `idempotency-core`, which knows no host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostVariables {
    /// Has the name of the program: the default of the first part of its key prefixes.
    pub name: &'static str,
    /// Has the memory of the program in MiB. It determines how much memory an event may use.
    pub memory: &'static str,
}

impl HostVariables {
    /// The variables of AWS Lambda. A server can run there too, behind an adapter.
    pub const LAMBDA: Self = Self {
        name: "AWS_LAMBDA_FUNCTION_NAME",
        memory: "AWS_LAMBDA_FUNCTION_MEMORY_SIZE",
    };

    /// Returns true if a variable of this name is one of them.
    pub fn contains(&self, name: &str) -> bool {
        [self.name, self.memory].contains(&name)
    }
}
