//! Accounts in the database of the records, PostgreSQL. The handler moves money between two of them, in the transaction of its response.

use std::time::Duration;

use idempotency_http::Call;
use idempotency_lambda::BoxError;
use idempotency_postgres::Begin;
use idempotency_postgres::sqlx::{Connection, PgConnection, query, query_as, query_scalar};

use super::database::{Applied, Claim};
use super::faults::Chance;
use super::function::{Event, Response, work};

/// The number of accounts.
const ACCOUNTS: u64 = 12;

/// The accounts, an entry for each transfer, and the writes to the records. No key of the ledger is unique: a transfer that is applied twice
/// must show.
pub(super) const TABLES: &str = "
CREATE TABLE accounts (id int PRIMARY KEY, balance bigint NOT NULL DEFAULT 100 CHECK (balance >= 0));
INSERT INTO accounts SELECT generate_series(0, 11);
CREATE TABLE ledger (key text, run text, source int, target int, amount bigint);
CREATE TABLE written (id text, owner text, lease_end bigint, at bigint, renews boolean, response text);
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    claims boolean := NEW.status = 'INPROGRESS' AND (TG_OP = 'INSERT' OR NEW.owner IS DISTINCT FROM OLD.owner);
    lease text[] := '{expiration,in_progress_expiration}';
BEGIN
    INSERT INTO written VALUES (
        NEW.id,
        CASE WHEN claims THEN NEW.owner END,
        NEW.in_progress_expiration,
        extract(epoch FROM clock_timestamp()) * 1000000,
        TG_OP = 'UPDATE' AND to_jsonb(NEW) - lease = to_jsonb(OLD) - lease,
        CASE WHEN NEW.status = 'COMPLETED' THEN NEW.data END
    );
    RETURN NULL;
END $$;
CREATE TRIGGER note AFTER INSERT OR UPDATE ON idempotency FOR EACH ROW EXECUTE FUNCTION note();
";

/// Records the run, does its work, and moves money if the account has enough. The key decides on the two accounts and the amount.
pub(super) async fn transfer(
    call: &Call,
    event: Event,
    request_id: String,
    id: Option<String>,
) -> Result<Response, BoxError> {
    let fails = event.fails;
    let works = Event {
        fails: false,
        ..event
    };
    let mut response = work(works, request_id, id).await?;
    let mut chance = Chance::of(0, &response.key);
    let source = chance.below(ACCOUNTS);
    let target = (source + 1 + chance.below(ACCOUNTS - 1)) % ACCOUNTS;
    let (source, target) = (i32::try_from(source)?, i32::try_from(target)?);
    let amount = i64::try_from(1 + chance.below(60))?;

    let mut tx = call.begin().await?;
    let balance = "SELECT balance FROM accounts WHERE id = $1 FOR UPDATE";
    let balance: i64 = query_scalar(balance)
        .bind(source)
        .fetch_one(&mut *tx)
        .await?;
    let moves = balance >= amount;
    if moves {
        for (account, change) in [(source, -amount), (target, amount)] {
            // Another transfer can lock the two in the other order meanwhile.
            tokio::time::sleep(Duration::from_millis(5)).await;
            let update = "UPDATE accounts SET balance = balance + $2 WHERE id = $1";
            let update = query(update).bind(account).bind(change);
            update.execute(&mut *tx).await?;
        }
        if fails {
            return Err("declined".into());
        }
        query("INSERT INTO ledger VALUES ($1, $2, $3, $4, $5)")
            .bind(&response.key)
            .bind(&response.run)
            .bind(source)
            .bind(target)
            .bind(amount)
            .execute(&mut *tx)
            .await?;
    }
    tx.commit_with_response();
    response.moves = Some(moves);
    Ok(response)
}

/// A transfer that was applied.
#[derive(Debug)]
pub(super) struct Transfer {
    pub(super) key: String,
    pub(super) run: String,
}

/// Returns the transfers that were applied.
///
/// # Errors
///
/// If an account does not have what the transfers left in it.
pub(super) async fn transfers(url: &str) -> Result<Vec<Transfer>, BoxError> {
    let mut connection = PgConnection::connect(url).await?;
    let wrong = "
        SELECT format('account %s has %s, and by its transfers %s', id, balance, balance_by_transfers) FROM accounts JOIN (
            SELECT a.id, 100 + coalesce(sum(CASE a.id WHEN target THEN amount ELSE -amount END), 0) AS balance_by_transfers
            FROM accounts a LEFT JOIN ledger ON a.id IN (source, target) GROUP BY a.id
        ) book USING (id) WHERE balance <> balance_by_transfers";
    let wrong: Option<String> = query_scalar(wrong).fetch_optional(&mut connection).await?;
    if let Some(wrong) = wrong {
        return Err(wrong.into());
    }
    let all = query_as("SELECT key, run FROM ledger");
    let all: Vec<(String, String)> = all.fetch_all(&mut connection).await?;
    let all = all.into_iter();
    Ok(all.map(|(key, run)| Transfer { key, run }).collect())
}

/// Returns the writes to records that were applied.
pub(super) async fn writes(url: &str) -> Result<Vec<Applied>, BoxError> {
    type Row = (
        String,
        Option<String>,
        Option<i64>,
        i64,
        bool,
        Option<String>,
    );
    let mut connection = PgConnection::connect(url).await?;
    let rows: Vec<Row> = query_as("SELECT * FROM written")
        .fetch_all(&mut connection)
        .await?;
    let rows = rows
        .into_iter()
        .map(|(id, owner, lease_end_ms, at_us, renews, response)| {
            let claim = Claim {
                at_us: at_us.try_into()?,
                lease_end_us: u64::try_from(lease_end_ms.unwrap_or_default())? * 1_000,
            };
            Ok(Applied {
                id,
                claim: owner.map(|owner| (owner, claim)),
                renews,
                responses: response.into_iter().collect(),
            })
        });
    rows.collect()
}
