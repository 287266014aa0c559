//! The table of settings. Fields, variables, builder methods and the attribute's checks come from it.
//!
//! A new setting is one row here, its effect, and its section in `docs/reference/configuration.md`.

use std::time::Duration;

use Check::{
    Caller, Choice, Context, Count, Expression, Function, Header, Headers, KeyRequired, Methods,
    Number, Payload, Pointers, Prefix, Replay, Store, Time, Truth,
};

/// A setting, as the attribute, the variables and the reference page see it.
#[derive(Clone, Copy, Debug)]
pub struct SettingRow {
    /// The name in the attribute, and of the builder's method.
    pub name: &'static str,
    /// The functions that have the setting.
    pub scope: Scope,
    /// An example of a value in the attribute.
    pub example: &'static str,
    /// What the attribute accepts as a value.
    pub check: Check,
    /// The environment variable that is used if the setting is missing.
    pub variable: Option<&'static str>,
    /// The default, as the reference page shows it.
    pub default: &'static str,
}

/// The functions that have a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Every protected function.
    Every,
    /// Handlers of HTTP events.
    Http,
    /// Functions of one record of a batch.
    Batch,
}

/// What the attribute accepts as the value of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// A JMESPath expression, and what leaving it out means.
    Expression(&'static str),
    /// An expression that selects a caller.
    Caller,
    /// `true`, `false` or `"all"`.
    KeyRequired,
    /// A prefix of keys.
    Prefix,
    /// The name of a header.
    Header,
    /// A list of headers.
    Headers,
    /// A list of HTTP methods.
    Methods,
    /// A list of JSON pointers, which may be empty.
    Pointers,
    /// `true` or `false`.
    Truth,
    /// A duration that is at least this long. If the shortest is in whole seconds, all are.
    Time(Duration),
    /// A number of these things; 0 is off.
    Number(&'static str),
    /// A number of records, at least 1.
    Count,
    /// An enum, with the name of each variant in settings.
    Choice(&'static str, &'static [(&'static str, &'static str)]),
    /// A function of the headers of a request.
    Function,
    /// A function of a replayed response.
    Replay,
    /// An expression that returns a store.
    Store,
    /// The payload.
    Payload,
    /// The invocation's context.
    Context,
}

impl Check {
    /// Returns true if the value can be any code of the user, so that a name in it is not taken for a constant.
    pub const fn is_code(self) -> bool {
        matches!(self, Replay | Store | Payload | Context)
    }
}

/// Hands the rows of the settings that a program can also set in code to the macro `$rows`.
///
/// A row has the name, the type, and the text of the builder's method after "Sets": the first literal is its summary.
#[doc(hidden)]
#[macro_export]
macro_rules! settings {
    ($rows:ident) => {
        $rows! {
            key: Text {
                text: "the JMESPath expression that selects the key. Without it the whole payload is the key.",
                example: "\"order_id\"", check: Expression("the whole payload"),
                variable: None, default: "the whole payload",
            }
            validate: Text {
                text: "the JMESPath expression of the part that must be equal in a duplicate."
                    "A call with the same key and another value of this part ends in `PayloadMismatch`, not in a replay.",
                example: "\"amount\"", check: Expression("no validation"),
                variable: None, default: "off",
            }
            key_required: KeyRequired {
                text: "which parts of its key a payload must have. Default: every part."
                    "`true` refuses only a payload without a key, and takes one that lacks a part of it. `false` runs a payload \
                     without a key unprotected.",
                example: "true", check: KeyRequired,
                variable: Some("IDEMPOTENCY_KEY_REQUIRED"), default: "`\"all\"`",
            }
            key_prefix: Text {
                text: "the whole key prefix, instead of the function's name and the path.",
                example: "\"charge\"", check: Prefix,
                variable: Some("IDEMPOTENCY_KEY_PREFIX"), default: "the function's path",
            }
            shared_key_prefix: bool {
                text: "whether other operations of the program may have the same `key_prefix`, because all of them are one operation."
                    "A call of one is then a duplicate of a call of another. Each of these operations must allow it.",
                example: "true", check: Truth,
                variable: None, default: "`false`",
            }
            hash: HashAlgorithm {
                text: "the hash algorithm of keys and of the validated part.",
                example: "\"sha256\"",
                check: Choice("HashAlgorithm", &[
                    ("md5", "Md5"), ("sha224", "Sha224"), ("sha256", "Sha256"), ("sha384", "Sha384"), ("sha512", "Sha512"),
                ]),
                variable: Some("IDEMPOTENCY_HASH"), default: "`md5`",
            }
            expires_after: Duration {
                text: "the window: how long a stored response is replayed. Whole seconds, at least one.",
                example: "\"1h\"", check: Time(Duration::from_secs(1)),
                variable: Some("IDEMPOTENCY_EXPIRES_AFTER"), default: "`1h`",
            }
            lease: Duration {
                text: "how long a claim lasts if no deadline is known. At least 1 ms; with `renew` at least 3 s.",
                example: "\"15m\"", check: Time(Duration::from_millis(1)),
                variable: Some("IDEMPOTENCY_LEASE"), default: "`15m`; with `renew` `30s`",
            }
            renew: bool {
                text: "whether a run renews the lease of its claim while its handler runs, if no deadline is known. The default is false."
                    "The lease can then be short: after a kill the next call runs when it has expired. A handler that blocks its thread \
                     for a part of the lease renews nothing.",
                example: "true", check: Truth,
                variable: Some("IDEMPOTENCY_RENEW"), default: "`false`",
            }
            renew_at_most: Duration {
                text: "how long a run renews the lease of its claim, counted from the claim. At least the length of the lease."
                    "After that the key of a run that hangs is free.",
                example: "\"1h\"", check: Time(Duration::from_secs(1)),
                variable: Some("IDEMPOTENCY_RENEW_AT_MOST"), default: "`1h`",
            }
            store_timeout: Duration {
                text: "how long the requests to the store before the handler may take together. At least 1 ms; the default is 3 s."
                    "The limit is never more than half of the time that is left. A wait for another call does not count.",
                example: "\"2s\"", check: Time(Duration::from_millis(1)),
                variable: Some("IDEMPOTENCY_STORE_TIMEOUT"), default: "`3s`",
            }
            local_cache: usize {
                text: "how many responses are kept in the memory of the process. 0 switches the local cache off.",
                example: "256", check: Number("records"),
                variable: Some("IDEMPOTENCY_LOCAL_CACHE"), default: "`0`, off",
            }
            local_cache_bytes: usize {
                text: "how many bytes of memory the kept responses may take. 0 switches the local cache off."
                    "A record counts as the length of its texts and 512 bytes. A record that is larger than the limit is not kept.",
                example: "8_388_608", check: Number("bytes"),
                variable: Some("IDEMPOTENCY_LOCAL_CACHE_BYTES"), default: "`8388608`",
            }
            lookup: Lookup {
                text: "whether a call reads the record of its key before it claims the key."
                    "`ReadFirst` makes a duplicate of a finished call cheaper, and a first call dearer and slower.",
                example: "\"read-first\"",
                check: Choice("Lookup", &[("claim-first", "ClaimFirst"), ("read-first", "ReadFirst")]),
                variable: Some("IDEMPOTENCY_LOOKUP"), default: "`claim-first`",
            }
            on_in_progress: OnInProgress {
                text: "what a duplicate does while the first call still runs.",
                example: "\"wait\"", check: Choice("OnInProgress", &[("reject", "Reject"), ("wait", "Wait")]),
                variable: Some("IDEMPOTENCY_ON_IN_PROGRESS"), default: "`reject`; of a stream `wait`",
            }
            on_timeout: OnTimeout {
                text: "what to do with a claim whose lease expired before it was completed.",
                example: "\"hold\"", check: Choice("OnTimeout", &[("rerun", "Rerun"), ("hold", "Hold")]),
                variable: Some("IDEMPOTENCY_ON_TIMEOUT"), default: "`rerun`",
            }
            on_error: OnError {
                text: "what to do with a claim whose handler returned an error.",
                example: "\"record\"", check: Choice("OnError", &[("release", "Release"), ("record", "Record")]),
                variable: Some("IDEMPOTENCY_ON_ERROR"), default: "`release`",
            }
            on_store_error: OnStoreError {
                text: "what a call does that could not claim its key, because the store failed before the handler ran."
                    "`RunUnprotected` runs the handler all the same: duplicates can then run too. It contradicts `OnTimeout::Hold`, \
                     and both together are refused.",
                example: "\"run-unprotected\"",
                check: Choice("OnStoreError", &[("fail", "Fail"), ("run-unprotected", "RunUnprotected")]),
                variable: Some("IDEMPOTENCY_ON_STORE_ERROR"), default: "`fail`",
            }
            circuit_breaker: bool {
                text: "whether a call asks the circuit breaker before it asks the store. The default is false."
                    "When the store has failed five times in a row, the breaker ends calls at once instead of letting each of them \
                     wait for `store_timeout`. The operations of a process that use it share it.",
                example: "true", check: Truth,
                variable: Some("IDEMPOTENCY_CIRCUIT_BREAKER"), default: "`false`",
            }
            steps: Steps {
                text: "whether the operation has steps, and what a failed run does with their results."
                    "`Keep` keeps them: a retry goes on after the last step. `Forget` deletes them.",
                example: "\"keep\"", check: Choice("Steps", &[("off", "Off"), ("keep", "Keep"), ("forget", "Forget")]),
                variable: None, default: "`off`",
            }
            store_when: Text {
                text: "the JMESPath expression over the response that decides whether it is stored, such as `status == 'paid'`."
                    "The call of a response that is not stored releases its claim, so that the next call runs the handler again.",
                example: "\"status == 'ok'\"", check: Expression("storing every response"),
                variable: None, default: "always",
            }
            store_event: Text {
                text: "what the record keeps of the event: `off`, `all`, or a JMESPath expression that selects it, such as \
                       `{order_id: order_id, amount: amount}`."
                    "It is for debugging and for `idempotency replay`. `off` keeps nothing, also if the variable says to keep it. \
                     At most 64 KiB are kept. The table must be encrypted with a key of KMS, unless this is waived. Keep no more \
                     than an operator may read.",
                example: "\"{order_id: order_id}\"", check: Expression("storing no event"),
                variable: Some("IDEMPOTENCY_STORE_EVENT"), default: "`off`",
            }
        }
    };
}

/// Writes the method of a builder that sets one row of `settings!`. The fields lead from the builder to its settings.
#[doc(hidden)]
#[macro_export]
macro_rules! setter {
    ($($field:ident).+; Text, $name:ident, $(#[$doc:meta])*) => {
        $(#[$doc])*
        pub fn $name(mut self, $name: impl Into<String>) -> Self {
            self.$($field).+.$name = Some(::std::borrow::Cow::Owned($name.into()));
            self
        }
    };
    ($($field:ident).+; KeyRequired, $name:ident, $(#[$doc:meta])*) => {
        $(#[$doc])*
        pub fn $name(mut self, $name: impl Into<KeyRequired>) -> Self {
            self.$($field).+.$name = Some($name.into());
            self
        }
    };
    ($($field:ident).+; $type:ident, $name:ident, $(#[$doc:meta])*) => {
        $(#[$doc])*
        pub fn $name(mut self, $name: $type) -> Self {
            self.$($field).+.$name = Some($name);
            self
        }
    };
}

macro_rules! rows {
    ($($name:ident: $type:ident {
        text: $($text:literal)+, example: $example:literal, check: $check:expr, variable: $variable:expr, default: $default:literal,
    })+) => {
        /// The settings that a program can also set in code, in the order of the documentation.
        pub const SETTINGS: &[SettingRow] = &[$(SettingRow {
            name: stringify!($name),
            scope: Scope::Every,
            example: $example,
            check: $check,
            variable: $variable,
            default: $default,
        }),+];
    };
}
settings!(rows);

macro_rules! rows_of_the_attribute {
    ($($scope:ident $name:ident: $check:expr, $example:literal;)+) => {
        /// The settings of the attribute alone, in the order of the documentation.
        const OF_THE_ATTRIBUTE: &[SettingRow] = &[$(SettingRow {
            name: stringify!($name),
            scope: Scope::$scope,
            example: $example,
            check: $check,
            variable: None,
            default: "",
        }),+];
    };
}
rows_of_the_attribute! {
    Every on_replay: Replay, "mark_as_replayed";
    Every store: Store, "store.clone()";
    Every payload: Payload, "order";
    Every context: Context, "event.context";
    Http caller: Caller, "\"requestContext.authorizer.jwt.claims.[iss, sub]\"";
    Http shared_by_all_callers: Truth, "true";
    Http key_header: Header, "\"x-request-id\"";
    Http key_per_path: Truth, "true";
    Http methods: Methods, "\"POST, PUT\"";
    Http fingerprint_also: Expression("method, path, query and body alone"), "\"header(@, 'host')\"";
    Http fingerprint_rfc8785: Pointers, "\"/context, /ext\"";
    Http stored_headers: Headers, "\"x-receipt, x-total\"";
    Http on_unstorable: Choice("Unstorable", &[("complete", "Complete"), ("release", "Release"), ("refuse", "Refuse")]),
        "\"release\"";
    Http add_headers: Function, "cors";
    Batch key_from: Choice("KeyFrom", &[("body", "Body"), ("record", "Record")]), "\"record\"";
    Batch concurrency: Count, "4";
    Batch order: Choice("RecordOrder", &[("source", "Source"), ("partition_key", "PartitionKey")]), "\"partition_key\"";
    Batch reserve: Time(Duration::from_millis(1)), "\"2s\"";
    Batch log_errors: Truth, "true";
}

impl SettingRow {
    /// Returns the rows of all settings.
    pub fn all() -> impl Iterator<Item = &'static Self> {
        SETTINGS.iter().chain(OF_THE_ATTRIBUTE)
    }

    /// Returns the rows of one scope.
    pub fn of(scope: Scope) -> impl Iterator<Item = &'static Self> {
        Self::all().filter(move |row| row.scope == scope)
    }

    /// Returns the row of this name, or `None` if there is no setting of this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        Self::all().find(|row| row.name == name)
    }

    /// Returns the row of a setting that a program can also set in code. Call it in a constant, so that a wrong name does not
    /// compile.
    ///
    /// # Panics
    ///
    /// If there is no setting of this name.
    pub const fn in_code(name: &str) -> &'static Self {
        let mut at = 0;
        while at < SETTINGS.len() {
            if is_same(SETTINGS[at].name.as_bytes(), name.as_bytes()) {
                return &SETTINGS[at];
            }
            at += 1;
        }
        panic!("no setting has this name");
    }

    /// Returns the variable of the setting; an empty text, which is the name of no variable, if it has none.
    pub const fn variable(&self) -> &'static str {
        match self.variable {
            Some(variable) => variable,
            None => "",
        }
    }
}

/// Compares two names in a constant, where `==` cannot.
const fn is_same(one: &[u8], other: &[u8]) -> bool {
    match (one, other) {
        ([], []) => true,
        ([a, one @ ..], [b, other @ ..]) => *a == *b && is_same(one, other),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_page_has_the_variable_and_the_default_of_every_setting() {
        let page = include_str!(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../docs/reference/configuration.md"
        ));
        for row in SETTINGS {
            let name = row.name;
            let variable = match row.variable {
                // It is the prefix of all operations, and not that of one.
                Some(variable) if name == "key_prefix" => format!("(`{variable}`) "),
                Some(variable) => format!("`{variable}` "),
                None => String::new(),
            };
            let line = format!("\n| [`{name}`](#{name}) | {variable}| {} |\n", row.default);
            assert!(page.contains(&line), "write this line: {line}");
        }
    }

    #[test]
    fn each_setting_has_one_row() {
        for row in SettingRow::all() {
            let same = SettingRow::all().filter(|other| other.name == row.name);
            assert_eq!(same.count(), 1, "{}", row.name);
        }
    }
}
