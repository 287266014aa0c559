//! What an error of the server or of the connection means: its kind, what to do, and whether the write may have been applied.

use idempotency_core::store::{StoreError, StoreErrorKind as Kind};
use sqlx::Error;
use sqlx::postgres::{PgDatabaseError, PgSeverity};

use crate::statement::{MARK, OTHER_STATEMENT};

/// A statement or a connection that failed.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) error: StoreError,
    /// True if the statement may have been applied, or may still be.
    pub(crate) maybe_applied: bool,
    /// What becomes of the connection and of the statement.
    pub(crate) next: Next,
}

impl Failure {
    fn new(kind: Kind, text: String, maybe_applied: bool, next: Next) -> Self {
        Self {
            error: StoreError::new(kind, text),
            maybe_applied,
            next,
        }
    }

    /// Returns the failure of a request that was not sent, or not applied.
    pub(crate) fn before_send(error: StoreError) -> Self {
        Self::new(error.kind(), error.to_string(), false, Next::Keep)
    }

    /// Returns the same failure, of a statement that only reads.
    pub(crate) fn unapplied(self) -> Self {
        Self {
            maybe_applied: false,
            ..self
        }
    }

    /// Returns the same failure, with a kind that passes if the statement may have been applied.
    fn read_if_in_doubt(self) -> Self {
        if !self.maybe_applied || self.error.kind().is_transient() {
            return self;
        }
        let error = StoreError::new(Kind::Unreachable, self.error.to_string());
        Self { error, ..self }
    }
}

/// What follows a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// The connection can be used again.
    Keep,
    /// The connection is in an unknown state.
    Discard,
    /// Another transaction was faster. The same statement can be sent again at once.
    Again,
    /// The table was changed after the connection prepared the statement. It can be sent again at once, over another connection.
    AgainElsewhere,
}

/// Whom the error is about, for its text.
pub(crate) struct Whom {
    /// The table with its server.
    pub(crate) name: String,
    /// The name of the table, as SQL writes it.
    pub(crate) table: String,
    /// The role that connects.
    pub(crate) role: String,
}

impl Whom {
    /// Returns the failure of a connection. Nothing was sent.
    pub(crate) fn connecting(&self, error: Error) -> Failure {
        let name = &self.name;
        // An error of data is how the handshake of TLS fails.
        let is_of_tls = match &error {
            Error::Io(error) => error.kind() == std::io::ErrorKind::InvalidData,
            error => matches!(error, Error::Tls(_)),
        };
        let mut kind = Kind::Unreachable;
        let text = match error {
            error if is_of_tls => {
                kind = Kind::Certificate;
                format!(
                    "no connection to {name} with TLS ({error}): switch TLS on in the server and name its certificate authority in the URL \
                     (`?sslmode=verify-full&sslrootcert=FILE`), or write `?sslmode=disable` for a server on this machine"
                )
            }
            Error::Database(error) => {
                let error = error.downcast::<PgDatabaseError>();
                let (of_code, remedy) = self.of_connection(error.code());
                kind = of_code;
                let quoted = quoted(&error);
                format!("{name} refused the connection ({quoted}): {remedy}")
            }
            Error::PoolTimedOut => format!(
                "no connection to {name} in time: {REACH}; or the server has no connection left (`max_connections`); or all connections of the pool were \
                 in use: set a larger number of them, one for each call at a time"
            ),
            Error::PoolClosed => {
                kind = Kind::Rejected;
                format!(
                    "the pool of connections to {name} was closed: keep it open while calls run"
                )
            }
            Error::Io(error) if error.kind() == std::io::ErrorKind::NotFound => format!(
                "no connection to {name}: a path in the URL has no file (`sslrootcert`, `sslcert`, `sslkey`, a socket): correct it, or add the file"
            ),
            Error::Io(error) => format!("no connection to {name} ({error}): {REACH}"),
            // Its text can have a letter of the password.
            Error::Configuration(_) => {
                kind = Kind::Credentials;
                format!(
                    "no connection to {name}: change the password, which has a letter that SCRAM does not permit, or correct `sslcert` and \
                     `sslkey` of the URL"
                )
            }
            other => format!(
                "no connection to {name} ({other}): check the URL, and that a server of PostgreSQL has this address"
            ),
        };
        Failure::new(kind, text, false, Next::Keep)
    }

    fn of_connection(&self, code: &str) -> (Kind, String) {
        let role = &self.role;
        match code {
            "28P01" | "28000" => (Kind::Credentials, format!(
                "check the password of the role `{role}`, and that `pg_hba.conf` lets it in from this address; a token of IAM is valid for 15 minutes"
            )),
            "3D000" => (Kind::TableMissing, "create the database, or correct its name in the URL".to_owned()),
            "42501" => (Kind::AccessDenied, format!("grant CONNECT on the database to the role `{role}`")),
            "53300" | "53400" => (Kind::Throttled,
                "the server has as many connections as it may have: raise its `max_connections`, limit the concurrency of the function, or \
                 put a pooler before the server".to_owned()),
            _ => {
                let (kind, remedy) = self.of_statement(code, "");
                (kind, remedy.unwrap_or_else(|| REACH.to_owned()))
            }
        }
    }

    /// Returns the failure of a statement that was sent.
    pub(crate) fn executing(&self, error: Error) -> Failure {
        let name = &self.name;
        let text = match error {
            Error::Database(error) => return self.executed(&error.downcast::<PgDatabaseError>()),
            Error::Encode(error) => {
                let text = format!("a value is too large for {name} ({error}): store less");
                return Failure::new(Kind::TooLarge, text, false, Next::Keep);
            }
            Error::Io(error) => format!("the connection to {name} broke ({error}): {REACH}"),
            other => format!(
                "the reply of {name} cannot be read ({other}): check that a server of PostgreSQL has this address"
            ),
        };
        Failure::new(Kind::Unreachable, text, true, Next::Discard)
    }

    /// Returns the failure of the completion in the transaction of a handler. Unless the handler had ended it, nothing of it is applied: it
    /// was not committed.
    pub(crate) fn completing(&self, error: Error) -> Failure {
        let found = of_server(&error);
        let is_of_copy =
            |it: &PgDatabaseError| it.code() == "57014" && it.message().starts_with("COPY");
        let what = match found {
            Some(error) if error.message().contains(MARK) => {
                return self.of_transaction(ENDED, true);
            }
            // The reply to a COPY that the handler did not end comes first.
            Some(error) if is_of_copy(error) || error.code() == "25P02" => ABORTED,
            Some(error) if matches!(error.code(), "25006" | "42501") => {
                return self.of_transaction(&format!("{} ({})", CHANGED, quoted(error)), false);
            }
            _ => {
                let failure = self.of_conflict(found);
                return Failure {
                    maybe_applied: false,
                    ..failure.unwrap_or_else(|| self.executing(error))
                };
            }
        };
        self.of_transaction(what, false)
    }

    /// Returns the failure of the commit of the transaction of a handler. Unless it proves that nothing was applied, it is one after which
    /// the record is read.
    pub(crate) fn committing(&self, error: Error) -> Failure {
        let found =
            of_server(&error).filter(|error| is_rolled_back(error.severity(), error.code()));
        match found {
            Some(error) if !self.of_statement(error.code(), "").0.is_transient() => {
                // The message can be that of a trigger, and quote a row.
                let constraint = error.constraint().map(|name| format!("`{name}`, "));
                let text = format!(
                    "a constraint or trigger refused the commit ({}SQLSTATE {}): see the log of the server",
                    constraint.unwrap_or_default(),
                    error.code()
                );
                self.of_transaction(&text, false)
            }
            _ => {
                let failure = self.of_conflict(found);
                failure.unwrap_or_else(|| self.executing(error).read_if_in_doubt())
            }
        }
    }

    /// Returns the failure of a transaction that the server rolled back because another one was first.
    fn of_conflict(&self, error: Option<&PgDatabaseError>) -> Option<Failure> {
        let error = error.filter(|error| matches!(error.code(), "40001" | "40P01"))?;
        let text = format!(
            "the transaction of the handler was rolled back, because another one was first ({}): call again",
            quoted(error)
        );
        Some(Failure::new(Kind::Conflict, text, false, Next::Discard))
    }

    fn of_transaction(&self, what: &str, maybe_applied: bool) -> Failure {
        let text = format!("{what}; the record is in {}", self.name);
        Failure::new(Kind::Rejected, text, maybe_applied, Next::Discard)
    }

    /// Returns the failure that a reply of the server describes.
    fn executed(&self, error: &PgDatabaseError) -> Failure {
        let code = error.code();
        let is_rolled_back = is_rolled_back(error.severity(), code);
        let (kind, remedy) = match error.severity() {
            PgSeverity::Fatal | PgSeverity::Panic => self.of_session(code),
            _ => self.of_statement(code, error.message()),
        };
        let remedy = remedy.unwrap_or_else(|| "see the log of the server".to_owned());
        let (name, quoted) = (&self.name, quoted(error));
        let text = format!("a request to {name} failed ({quoted}): {remedy}");
        Failure::new(kind, text, !is_rolled_back, next(is_rolled_back, code))
    }

    /// Returns the kind of an error that ended the session, and what to do. It says nothing of the statement, so it passes.
    fn of_session(&self, code: &str) -> (Kind, Option<String>) {
        match code {
            "08P01" => (Kind::Unreachable, Some(LOST.to_owned())),
            "25P03" | "25P04" => (Kind::Unreachable, Some(HELD_TOO_LONG.to_owned())),
            _ => match self.of_statement(code, "") {
                (kind, remedy) if kind.is_transient() => (kind, remedy),
                _ => (Kind::Unreachable, Some(REACH.to_owned())),
            },
        }
    }

    /// Returns the kind of an error of the server, and what to do.
    fn of_statement(&self, code: &str, message: &str) -> (Kind, Option<String>) {
        let (table, role) = (&self.table, self.role.replace('"', "\"\""));
        let (kind, remedy) = match code {
            _ if message.contains(OTHER_STATEMENT) => (Kind::Rejected, POOLER.to_owned()),
            // No other one sets a limit that cannot be.
            "22023" if message.contains("lock_timeout") => (Kind::Rejected, POOLER.to_owned()),
            "26000" | "42P05" | "08P01" => (Kind::Rejected, POOLER.to_owned()),
            "3F000" => (Kind::TableMissing, format!("create the schema of the table `{table}`, or set IDEMPOTENCY_POSTGRES_TABLE")),
            "42P01" => (Kind::TableMissing, format!("create the table `{table}` with the migration of `idempotency-postgres`, or set IDEMPOTENCY_POSTGRES_TABLE")),
            "42703" | "42804" | "42883" | "42P10" | "42809" | "22P02" | "23502" | "23514" | "23505" => (Kind::WrongSchema, OTHER_VERSION.to_owned()),
            "42501" => (Kind::AccessDenied, format!("GRANT SELECT, INSERT, UPDATE, DELETE ON {table} TO \"{role}\", and USAGE on its schema, or CREATE to create the table")),
            "42P07" => (Kind::Rejected, "look at the one that is there with `idempotency table check`".to_owned()),
            "25006" => (Kind::Unreachable, READ_ONLY.to_owned()),
            "40001" | "40P01" => (Kind::Conflict, "other transactions have the record: send the request again".to_owned()),
            "55P03" => (Kind::Conflict, "another transaction holds the row of the record: end it, and keep transactions with this table short".to_owned()),
            "57014" => (Kind::Unreachable, "the server cancelled the statement: raise `statement_timeout` of the role, or find what blocks it".to_owned()),
            "0A000" => (Kind::Internal, "the table was changed while the function ran: send the request again".to_owned()),
            code if code.starts_with("53") => (Kind::Throttled, "the server lacks memory, disk or connections".to_owned()),
            code if code.starts_with("54") => (Kind::TooLarge, "a value is too long: return less from the handler, or shorten the prefix of the key".to_owned()),
            code if code.starts_with("57P") || code.starts_with("08") => (Kind::Unreachable, REACH.to_owned()),
            code if code.starts_with("58") || code.starts_with("XX") => return (Kind::Internal, None),
            _ => return (Kind::Rejected, None),
        };
        (kind, Some(remedy))
    }
}

const ABORTED: &str = "the transaction of the handler was aborted by a statement that failed: return the error of the statement, or run it in a \
                       savepoint (`tx.begin()`)";

const ENDED: &str = "the handler ended its transaction itself, so its writes may be applied without the response: leave COMMIT and ROLLBACK to \
                     `commit_with_response` and `rollback`";

const CHANGED: &str = "the response cannot be stored in the transaction of the handler, although the same role claimed the key: let the handler set no read-only mode, \
                       and no role that keeps it from the table";

const HELD_TOO_LONG: &str = "the handler held its transaction for longer than `transaction_timeout` of the role permits, or \
                             `idle_in_transaction_session_timeout`, which is its lease unless the handler sets another one (SET LOCAL): do slow \
                             work before it begins";

const LOST: &str = "a pooler lost its connection to the server: check that the server runs, and that the pooler is in transaction or session \
                    mode; statement mode cannot be used";

const REACH: &str = "check that the server runs, that its security group or firewall admits this address, and that DNS finds it";

pub(crate) const READ_ONLY: &str = "the server is read-only: connect to the primary (on Aurora the cluster endpoint, not the reader endpoint)";

pub(crate) const OTHER_VERSION: &str =
    "its columns are not those of this version: apply the migration of `idempotency-postgres`";

pub(crate) const POOLER: &str = "a pooler between this process and the server keeps no prepared statements, or has no sessions: set \
                      IDEMPOTENCY_POSTGRES_POOLER=transaction, or `max_prepared_statements` of PgBouncer 1.21 or later; statement mode cannot be used";

/// Returns true if this error proves that nothing was applied.
///
/// An `ERROR` has rolled the transaction back. A `FATAL` ends the session, and can follow a commit. Errors of class 08 can be those of a
/// pooler, which does not know what the server did.
fn is_rolled_back(severity: PgSeverity, code: &str) -> bool {
    matches!(severity, PgSeverity::Error) && !code.starts_with("08") && code != "40003"
}

/// Returns true if the server refused a statement, and the session goes on.
pub(crate) fn is_rejection(error: &Error) -> bool {
    of_server(error).is_some_and(|error| matches!(error.severity(), PgSeverity::Error))
}

/// Returns the error that the server replied. `None` if it is one of the connection.
fn of_server(error: &Error) -> Option<&PgDatabaseError> {
    error.as_database_error()?.try_downcast_ref()
}

fn next(is_rolled_back: bool, code: &str) -> Next {
    match code {
        _ if !is_rolled_back => Next::Discard,
        "40001" | "40P01" => Next::Again,
        "0A000" => Next::AgainElsewhere,
        // A connection stays at a server that became a standby, without prepared statements that are lost, and with a role that a handler has set.
        _ if matches!(code, "25006" | "26000") || code.starts_with("42") => Next::Discard,
        _ => Next::Keep,
    }
}

/// Returns what the server says, without its detail: that can quote a row.
fn quoted(error: &PgDatabaseError) -> String {
    format!("{}, SQLSTATE {}", error.message(), error.code())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whom() -> Whom {
        Whom {
            name: "the table".to_owned(),
            table: "idempotency".to_owned(),
            role: "app".to_owned(),
        }
    }

    #[test]
    fn only_an_error_that_rolled_back_proves_that_nothing_was_applied() {
        use PgSeverity::{Error, Fatal, Panic};
        for (severity, code, proves, then) in [
            (Error, "40001", true, Next::Again),
            (Error, "40P01", true, Next::Again),
            (Error, "0A000", true, Next::AgainElsewhere),
            (Error, "55P03", true, Next::Keep),
            (Error, "57014", true, Next::Keep),
            (Error, "25006", true, Next::Discard),
            (Error, "26000", true, Next::Discard),
            (Error, "42501", true, Next::Discard),
            (Fatal, "57P01", false, Next::Discard),
            (Panic, "XX000", false, Next::Discard),
            (Fatal, "40001", false, Next::Discard),
            // A pooler lost its connection to the server.
            (Error, "08006", false, Next::Discard),
            (Error, "08P01", false, Next::Discard),
            (Error, "40003", false, Next::Discard),
        ] {
            let is_rolled_back = is_rolled_back(severity, code);
            assert_eq!(
                (is_rolled_back, next(is_rolled_back, code)),
                (proves, then),
                "{code}"
            );
        }
    }

    #[test]
    fn each_code_has_a_kind_and_says_what_to_do() {
        for (code, kind, text) in [
            (
                "26000",
                Kind::Rejected,
                "IDEMPOTENCY_POSTGRES_POOLER=transaction",
            ),
            (
                "42P01",
                Kind::TableMissing,
                "create the table `idempotency`",
            ),
            ("42703", Kind::WrongSchema, "apply the migration"),
            (
                "42501",
                Kind::AccessDenied,
                "GRANT SELECT, INSERT, UPDATE, DELETE ON idempotency TO \"app\"",
            ),
            ("25006", Kind::Unreachable, "connect to the primary"),
            ("40001", Kind::Conflict, "send the request again"),
            ("55P03", Kind::Conflict, "end it"),
            ("57014", Kind::Unreachable, "statement_timeout"),
            ("53100", Kind::Throttled, "disk"),
            ("54000", Kind::TooLarge, "return less"),
            ("57P01", Kind::Unreachable, "check that the server runs"),
        ] {
            let (found, remedy) = whom().of_statement(code, "");
            let remedy = remedy.unwrap();
            assert!(
                found == kind && remedy.contains(text),
                "{code}: {found:?} {remedy}"
            );
        }
        assert_eq!(whom().of_statement("XX001", ""), (Kind::Internal, None));
        assert_eq!(whom().of_statement("22021", ""), (Kind::Rejected, None));
        let (kind, remedy) = whom().of_statement("22P02", &format!("\"{OTHER_STATEMENT}07\""));
        assert_eq!((kind, remedy.as_deref()), (Kind::Rejected, Some(POOLER)));
        let wait = "-7 ms is outside the valid range for parameter \"lock_timeout\"";
        assert_eq!(whom().of_statement("22023", wait), (kind, remedy));
    }

    #[test]
    fn the_end_of_a_session_passes() {
        for (code, text) in [
            ("08P01", "a pooler lost its connection"),
            ("25P03", "idle_in_transaction_session_timeout"),
            ("25P04", "transaction_timeout"),
            ("57P01", "check that the server runs"),
            ("57P05", "check that the server runs"),
            ("28000", "check that the server runs"),
            ("53300", "connections"),
        ] {
            let (kind, remedy) = whom().of_session(code);
            assert!(kind.is_transient(), "{code}: {kind:?}");
            assert!(remedy.unwrap().contains(text), "{code}");
        }
    }

    #[test]
    fn a_commit_in_doubt_is_read() {
        let failure = |maybe_applied| Failure {
            error: StoreError::new(Kind::Rejected, "no"),
            maybe_applied,
            next: Next::Discard,
        };
        let in_doubt = failure(true).read_if_in_doubt();
        assert_eq!(in_doubt.error.kind(), Kind::Unreachable);
        assert!(in_doubt.maybe_applied);
        let refused = failure(false).read_if_in_doubt();
        assert_eq!(refused.error.kind(), Kind::Rejected);
    }

    #[test]
    fn an_error_of_a_connection_is_about_the_role_or_the_server() {
        for (code, kind, text) in [
            ("28P01", Kind::Credentials, "the password of the role `app`"),
            ("3D000", Kind::TableMissing, "create the database"),
            ("42501", Kind::AccessDenied, "grant CONNECT"),
            ("53300", Kind::Throttled, "max_connections"),
            ("08P01", Kind::Rejected, "pooler"),
            ("57P03", Kind::Unreachable, "check that the server runs"),
        ] {
            let (found, remedy) = whom().of_connection(code);
            assert!(
                found == kind && remedy.contains(text),
                "{code}: {found:?} {remedy}"
            );
        }
        let missing = std::io::Error::from(std::io::ErrorKind::NotFound);
        let failure = whom().connecting(Error::Io(missing));
        assert!(failure.error.to_string().contains("`sslrootcert`"));
        let failure = whom().connecting(Error::Configuration("saslprep: '\u{1F600}'".into()));
        let text = failure.error.to_string();
        assert_eq!(failure.error.kind(), Kind::Credentials);
        assert!(!text.contains('\u{1F600}'), "{text}");
        let failure = whom().connecting(Error::Tls("no".into()));
        assert_eq!(failure.error.kind(), Kind::Certificate);
        assert!(!failure.maybe_applied);
    }

    #[test]
    fn a_connection_that_breaks_leaves_the_write_in_doubt() {
        let broken = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
        for error in [
            Error::Io(broken),
            Error::Protocol("short".to_owned()),
            Error::WorkerCrashed,
        ] {
            let failure = whom().executing(error);
            assert!(failure.maybe_applied);
            assert_eq!(failure.next, Next::Discard);
            assert_eq!(failure.error.kind(), Kind::Unreachable);
        }
        let unsent = whom().executing(Error::Encode("too long".into()));
        assert!(!unsent.maybe_applied && unsent.error.kind() == Kind::TooLarge);
    }
}
