//! SQL as an engineer who knows PostgreSQL writes it: a claim that brings back what is there, and a completion that checks the owner.

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Result, bail, ensure};
use beside::{LEASE, WINDOW};
use idempotency_lambda::postgres::sqlx::postgres::{PgExecutor, PgPool, PgRow};
use idempotency_lambda::postgres::sqlx::{Row, query};
use sha2::{Digest, Sha256};

use crate::{Kind, Order, Receipt, handler, transfer};

/// The table. A row without a response is a claim.
pub const TABLE: &str = "CREATE TABLE by_hand (
    id text PRIMARY KEY,
    owner text NOT NULL,
    validation text NOT NULL,
    lease_ends bigint NOT NULL,
    expires bigint NOT NULL,
    response text
) WITH (fillfactor = 80);
-- For the deletion of expired rows.
CREATE INDEX ON by_hand (expires)";

/// A row that is there is only read: `ON CONFLICT DO UPDATE` would lock it, and write to the log of the server.
const CLAIM: &str = "WITH claim AS (
        INSERT INTO by_hand (id, owner, validation, lease_ends, expires) VALUES ($1, $2, $3, $4, $5)
        ON CONFLICT (id) DO NOTHING RETURNING 1
    )
    SELECT NULL AS owner, NULL AS validation, NULL AS lease_ends, NULL AS expires, NULL AS response FROM claim
    UNION ALL
    SELECT owner, validation, lease_ends, expires, response FROM by_hand WHERE id = $1 AND NOT EXISTS (SELECT FROM claim)";

/// Takes over a claim whose lease ended, or a row that expired. It is the row that was read if its owner is.
const TAKE_OVER: &str =
    "UPDATE by_hand SET owner = $2, validation = $3, lease_ends = $4, expires = $5, response = NULL
    WHERE id = $1 AND owner = $6";

const COMPLETE: &str = "UPDATE by_hand SET response = $3, expires = $4 WHERE id = $1 AND owner = $2 AND response IS NULL";

pub struct ByHand(pub PgPool);

impl ByHand {
    /// Returns the receipt of an order, and whether it was stored before.
    pub async fn charge(&self, order: &Order, kind: Kind) -> Result<(Receipt, bool)> {
        let id = format!("by-hand:{}:{}", order.user, order.order_id);
        // Of the system: two processes that were restored from one snapshot must not have one owner.
        let mut owner = [0; 16];
        getrandom::fill(&mut owner)?;
        let owner = format!("{:032x}", u128::from_ne_bytes(owner));
        let validation = Sha256::digest(serde_json::to_string(&order.amount)?);
        let validation: String = validation
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        if let Some(receipt) = self.claim(&id, &owner, &validation).await? {
            return Ok((receipt, true));
        }
        let receipt = match kind {
            Kind::Plain => {
                let receipt = handler(order);
                complete(&self.0, &id, &owner, &receipt).await?;
                receipt
            }
            Kind::OwnSql => {
                let mut transaction = self.0.begin().await?;
                let receipt = transfer(&mut transaction, order).await?;
                complete(&mut *transaction, &id, &owner, &receipt).await?;
                transaction.commit().await?;
                receipt
            }
        };
        Ok((receipt, false))
    }

    /// Claims the key. Returns the response that is stored, if one is.
    async fn claim(&self, id: &str, owner: &str, validation: &str) -> Result<Option<Receipt>> {
        let now = now();
        let (lease_ends, expires) = (now + millis(LEASE), now + millis(WINDOW));
        let claim = query(CLAIM)
            .bind(id)
            .bind(owner)
            .bind(validation)
            .bind(lease_ends)
            .bind(expires);
        // Both parts of the statement see one snapshot: without a row another call was faster.
        let Some(found) = claim.fetch_optional(&self.0).await? else {
            bail!("in progress")
        };
        let Some(found) = Found::read(&found)? else {
            return Ok(None);
        };
        let is_valid = now <= found.expires;
        if let (true, Some(response)) = (is_valid, &found.response) {
            ensure!(found.validation == validation, "another amount");
            return Ok(Some(serde_json::from_str(response)?));
        }
        ensure!(!is_valid || found.lease_ends < now, "in progress");
        let taken_over = query(TAKE_OVER)
            .bind(id)
            .bind(owner)
            .bind(validation)
            .bind(lease_ends)
            .bind(expires)
            .bind(found.owner);
        let taken_over = taken_over.execute(&self.0).await?;
        ensure!(taken_over.rows_affected() == 1, "in progress");
        Ok(None)
    }
}

/// The row of a key.
struct Found {
    owner: String,
    validation: String,
    lease_ends: i64,
    expires: i64,
    response: Option<String>,
}

impl Found {
    /// Returns the row that was there. `None` if there was none.
    fn read(row: &PgRow) -> Result<Option<Self>> {
        let Some(owner) = row.try_get(0)? else {
            return Ok(None);
        };
        Ok(Some(Self {
            owner,
            validation: row.try_get(1)?,
            lease_ends: row.try_get(2)?,
            expires: row.try_get(3)?,
            response: row.try_get(4)?,
        }))
    }
}

async fn complete(
    executor: impl PgExecutor<'_>,
    id: &str,
    owner: &str,
    receipt: &Receipt,
) -> Result<()> {
    let complete = query(COMPLETE)
        .bind(id)
        .bind(owner)
        .bind(serde_json::to_string(receipt)?)
        .bind(now() + millis(WINDOW));
    let completed = complete.execute(executor).await?;
    ensure!(completed.rows_affected() == 1, "the claim was lost");
    Ok(())
}

fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    millis(since.unwrap_or_default())
}

fn millis(time: std::time::Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}
