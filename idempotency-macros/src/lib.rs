//! The attribute `#[idempotent]` of `idempotency-lambda`, which re-exports it: depend on that crate, not on this one.
//!
//! | phase | what it does |
//! |---|---|
//! | `bounds` | what is too deep for a parser |
//! | `parse` | the function in its parts; the body stays tokens |
//! | `arguments` | the attribute's arguments; every `name = value` passes through one place |
//! | `values` | what each setting may be |
//! | `runtime` | under which name the program knows `idempotency-lambda` |
//! | `validate` | everything that can be wrong, collected |
//! | `parameters` | where among the parameters the invocation's context may be |
//! | `expand` | the code; no decisions |
//! | `fallback` | the user's own function beside the errors, where there are any |
//!
//! The code that is written calls `idempotency_lambda::__private` and nothing else.

mod arguments;
mod attribute;
mod bounds;
mod expand;
mod fallback;
mod parameters;
mod parse;
#[cfg(test)]
mod properties;
mod runtime;
mod validate;
mod values;

use proc_macro::TokenStream;

/// Makes an async function safe to retry: a duplicate is given the answer of the first call, and does not run.
///
/// On a Lambda handler it stands alone. The payload is the event's, the deadline is the invocation's, and the signature
/// stays as it is, so that a unit test calls the handler like any function.
///
/// ```
/// use idempotency_lambda::{BoxError, LambdaEvent, idempotent};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize)]
/// struct Payment {
///     order_id: String,
///     amount: u64,
/// }
///
/// #[derive(Serialize, Deserialize)]
/// struct Receipt {
///     charged: u64,
/// }
///
/// #[idempotent(key = "order_id", validate = "amount", expires_after = "1h")]
/// async fn handler(event: LambdaEvent<Payment>) -> Result<Receipt, BoxError> {
///     Ok(Receipt { charged: event.payload.amount })
/// }
/// # let _ = handler;
/// ```
///
/// On any other async function or method, `payload` says what a call is known by. It is an expression over the
/// parameters; it is serialised before the body runs, and nothing in it is moved.
///
/// ```
/// # use idempotency_lambda::{BoxError, idempotent};
/// # struct Order { id: u64 }
/// # struct Shop;
/// #[idempotent(payload = (customer, &order.id))]
/// async fn ship(customer: &str, order: Order) -> Result<String, BoxError> {
///     Ok(format!("order {} is on its way to {customer}", order.id))
/// }
///
/// impl Shop {
///     #[idempotent(payload = order.id, key_prefix = "shop.refund")]
///     async fn refund(&self, order: &Order) -> Result<u64, BoxError> {
///         Ok(order.id)
///     }
/// }
/// # let _ = (ship, Shop::refund);
/// ```
///
/// A handler with state takes more than the event. The deadline and the tenant are taken from the parameter that has
/// the invocation's context: a `LambdaEvent<T>`, a `lambda_runtime::Context`, an `http::Request` under `lambda_http::run`, or
/// another type that is `HasContext`, also by reference, under an alias or inside a pattern. `context` names it where it
/// is elsewhere. Where several parameters have one, those count first whose pattern leaves something out (`..` or `_`), then the
/// first name in the order of the parameters. Where no parameter has one, the invocation around the call counts.
///
/// ```
/// # use idempotency_lambda::{BoxError, Context, LambdaEvent, idempotent};
/// # #[derive(serde::Serialize)] struct Order { id: u64 }
/// # struct App; impl App { async fn charge(&self, _: &Order) -> Result<u64, BoxError> { Ok(1) } }
/// # struct Job { order: Order, lambda: Context }
/// #[idempotent(payload = event.payload, key = "id")]
/// async fn handler(app: &App, event: LambdaEvent<Order>) -> Result<u64, BoxError> {
///     app.charge(&event.payload).await
/// }
///
/// #[idempotent(payload = job.order, context = job.lambda)]
/// async fn work(app: &App, job: Job) -> Result<u64, BoxError> {
///     app.charge(&job.order).await
/// }
/// # let _ = (handler, work);
/// ```
///
/// Inside Lambda a call that finds no invocation at all is refused: its lease and its tenant would be a guess.
///
/// The invocation around the call is read when the future is first polled, and not when the function is called. A future that
/// is made inside an invocation and spawned is polled outside of it: wrap it with `in_current_invocation`.
///
/// # What the function must be
///
/// - an `async fn` that returns a `Result<R, E>`, under this name or an alias;
/// - `R` is written as JSON and read back: `Serialize` and `DeserializeOwned`;
/// - `E` can hold this framework's errors: `From<idempotency_lambda::Error>`, as `Box<dyn Error + Send + Sync>` and
///   `anyhow::Error` do;
/// - without `payload`, its one parameter is a `LambdaEvent<T>`, where `T` is `Serialize` or `Raw<_>`.
///
/// # Settings
///
/// What is left out here comes from the environment, then from the default. All are checked when the program is compiled.
///
/// | setting | value | environment | default |
/// |---|---|---|---|
/// | `key` | JMESPath over the payload | – | the whole payload |
/// | `validate` | JMESPath over the payload: a duplicate with the same key must agree in this too | – | off |
/// | `key_required` | `"all"`: a payload that lacks a part of the key is an error; `true`: one without a key; `false`: it runs unprotected | `IDEMPOTENCY_KEY_REQUIRED` | `false` |
/// | `key_prefix` | the operation's name in its keys, up to 512 bytes | – | `{application}.{module path}.{function}`; the application is `IDEMPOTENCY_KEY_PREFIX`, else the Lambda function's name |
/// | `shared_key_prefix` | `true` on each of several functions that are one operation, and so have one `key_prefix` | – | `false`: two functions with one prefix stop the start |
/// | `hash` | `"md5"`, `"sha224"`, `"sha256"`, `"sha384"`, `"sha512"` | `IDEMPOTENCY_HASH` | `"md5"` |
/// | `expires_after` | how long an answer is replayed, `"1s"` or more | `IDEMPOTENCY_EXPIRES_AFTER` | `"1h"` |
/// | `lease` | how long a claim lasts where no deadline is known, `"1ms"` or more | `IDEMPOTENCY_LEASE` | `"15m"` |
/// | `store_timeout` | how long the requests to the store before the handler may take together, `"1ms"` or more; never more than half of the time left | `IDEMPOTENCY_STORE_TIMEOUT` | `"3s"` |
/// | `local_cache` | records kept in memory; 0 is off | `IDEMPOTENCY_LOCAL_CACHE` | 0 |
/// | `local_cache_bytes` | bytes of memory that these records may take | `IDEMPOTENCY_LOCAL_CACHE_BYTES` | 8388608 |
/// | `on_in_progress` | `"reject"` or `"wait"`: a duplicate while the first call runs | `IDEMPOTENCY_ON_IN_PROGRESS` | `"reject"` |
/// | `on_timeout` | `"rerun"` or `"hold"`: after a run that never ended | `IDEMPOTENCY_ON_TIMEOUT` | `"rerun"` |
/// | `on_error` | `"release"` or `"record"`: after a handler that failed | `IDEMPOTENCY_ON_ERROR` | `"release"` |
/// | `store_when` | JMESPath over the answer: stored if it is true | – | always |
/// | `on_replay` | a function or closure `fn(R, &Replay) -> R`, called on answers given again | – | – |
/// | `store` | an expression, evaluated at each call, for a store of the operation's own | `IDEMPOTENCY_STORE` | DynamoDB |
/// | `payload` | an expression over the parameters | – | the event's payload |
/// | `context` | an expression over the parameters, with `payload`: the invocation's `Context` | – | found among the parameters |
///
/// Durations are written like `"30s"`, `"15m"` or `"1h 30m"`. A value may be the name of a constant of the setting's type instead: `&str`,
/// `Duration`, `usize`, `bool`, or the setting's enum; for `key_required`, `bool` or `KeyRequired`. A constant's value is checked when the program starts.
///
/// ```
/// # use idempotency_lambda::{BoxError, OnTimeout, idempotent};
/// # use std::time::Duration;
/// const WINDOW: Duration = Duration::from_secs(24 * 60 * 60);
///
/// #[idempotent(payload = order, expires_after = WINDOW, on_timeout = OnTimeout::Hold)]
/// async fn ship(order: u64) -> Result<u64, BoxError> {
///     Ok(order)
/// }
/// # let _ = ship;
/// ```
///
/// The attribute finds `idempotency-lambda` under the name that `Cargo.toml` gives it. Where another crate re-exports it, say where:
/// `crate = facade::idempotency_lambda`.
///
/// The table and its attributes are the environment's alone.
///
/// Methods and generic functions need a `key_prefix`: module and name do not tell two of them apart.
///
/// # Order of attributes
///
/// What stands below `#[idempotent]` stays on the function and sees every call, replayed ones too. Under `#[async_trait]`
/// the function is no longer async when this attribute sees it: annotate a function of its own and call it there.
#[proc_macro_attribute]
pub fn idempotent(arguments: TokenStream, item: TokenStream) -> TokenStream {
    attribute::attribute(arguments.into(), item.into()).into()
}
