//! An axum server that moves money between two rows of PostgreSQL. The money, and the response that a retry gets, are in one transaction:
//! both are there, or none.

use std::collections::HashMap;
use std::time::Duration;

use axum::extract::{Extension, Json, Request};
use axum::http::StatusCode;
use axum::http::header::AUTHORIZATION;
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::routing::{Router, post};
use idempotency_http::{Backend, Call, Error, HttpIdempotencyLayer, HttpOperation};
use idempotency_postgres::sqlx::{self, PgPool, query, query_as, query_scalar, raw_sql};
use idempotency_postgres::{Begin as _, MIGRATION};
use serde::{Deserialize, Serialize};

/// The user that a request comes from. The user's account has the same id.
#[derive(Clone)]
struct User(&'static str);

/// The body of a request.
#[derive(Debug, Deserialize)]
struct Transfer {
    /// The account that gets the money. It comes from that of the user.
    to: String,
    /// In the smallest unit of the currency.
    amount: i64,
}

/// The body of a response.
#[derive(Debug, Serialize)]
struct Account {
    /// What is left.
    balance: i64,
}

/// Moves money from the account of the user to another one.
async fn transfer(
    Extension(User(from)): Extension<User>,
    Extension(call): Extension<Call>,
    Json(Transfer { to, amount }): Json<Transfer>,
) -> Result<Response, Failed> {
    // PostgreSQL has no text with a NUL.
    if amount <= 0 || to == from || to.contains('\0') {
        return Ok((StatusCode::BAD_REQUEST, "no amount, or no other account").into_response());
    }
    let mut tx = call.begin().await?;
    // In the order of their ids: two transfers that meet do not deadlock.
    let lock = "SELECT id, balance FROM accounts WHERE id IN ($1, $2) ORDER BY id FOR UPDATE";
    let accounts = query_as(lock).bind(from).bind(&to).fetch_all(&mut *tx);
    let accounts: HashMap<String, i64> = accounts.await?.into_iter().collect();
    let (Some(balance), Some(_)) = (accounts.get(from), accounts.get(&to)) else {
        tx.rollback();
        return Ok((StatusCode::NOT_FOUND, "no such account").into_response());
    };
    if *balance < amount {
        tx.rollback();
        return Ok((StatusCode::PAYMENT_REQUIRED, "not enough money").into_response());
    }
    let add = "UPDATE accounts SET balance = balance + $2 WHERE id = $1";
    query(add)
        .bind(from)
        .bind(-amount)
        .execute(&mut *tx)
        .await?;
    query(add).bind(&to).bind(amount).execute(&mut *tx).await?;
    tx.commit_with_response();
    let balance = balance - amount;
    Ok((StatusCode::CREATED, Json(Account { balance })).into_response())
}

/// Says that nothing moved, and that a retry can succeed: its key is free. The responses above are stored, the refusals too.
struct Failed;

/// For the errors of `call.begin()` and of `sqlx`.
impl<E: std::error::Error> From<E> for Failed {
    fn from(error: E) -> Self {
        tracing::error!(%error, "the transfer failed");
        Self
    }
}

impl IntoResponse for Failed {
    fn into_response(self) -> Response {
        StatusCode::SERVICE_UNAVAILABLE.into_response()
    }
}

/// Returns the layer, over the store in the database that has the accounts.
///
/// # Errors
///
/// If a setting is invalid.
pub fn layer(backend: Backend) -> Result<HttpIdempotencyLayer, Error> {
    let operation = HttpOperation::builder("transfers")
        .key_prefix("transfers")
        .caller_from(|request| Some(request.extensions.get::<User>()?.0.to_owned()))
        .expires_after(Duration::from_secs(24 * 60 * 60)) // longer than a client retries
        .lease(Duration::from_secs(10)) // longer than a transfer takes; after a kill its key is free
        .build()?;
    // A client that disconnects does not cut its transfer off.
    Ok(operation.layer(backend).run_to_end())
}

/// Returns the routes. Authentication is outside of the layer: a replay is authenticated too.
pub fn app(idempotent: HttpIdempotencyLayer) -> Router {
    Router::new()
        .route("/transfers", post(transfer))
        .route_layer(idempotent)
        .route_layer(from_fn(authenticate))
}

/// Finds out which user sends a request. A server of yours checks a signed token here.
async fn authenticate(mut request: Request, next: Next) -> Result<Response, StatusCode> {
    let user = match request.headers().get(AUTHORIZATION).map(|it| it.as_bytes()) {
        Some(b"Bearer token-of-ann") => User("ann"),
        Some(b"Bearer token-of-bob") => User("bob"),
        _ => return Err(StatusCode::UNAUTHORIZED),
    };
    request.extensions_mut().insert(user);
    Ok(next.run(request).await)
}

/// Creates both tables, if there are no accounts. A service of yours does this with its migrations.
///
/// # Errors
///
/// If there is no connection, or the database refuses it.
pub async fn create_tables(database: &PgPool) -> Result<(), sqlx::Error> {
    let mut tx = database.begin().await?;
    let are_there = query_scalar("SELECT to_regclass('accounts') IS NOT NULL");
    if !are_there.fetch_one(&mut *tx).await? {
        for migration in [include_str!("../accounts.sql"), MIGRATION] {
            raw_sql(migration).execute(&mut *tx).await?;
        }
    }
    tx.commit().await
}
