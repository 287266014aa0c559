//! Commands of `redis`, as an engineer who knows Valkey writes them, with the promises that the store keeps on this path:
//!
//! - The key is a digest of the selected values.
//! - Another payload is refused by its digest.
//! - The lease of a claim ends by the caller's clock. Then another call takes the claim over.
//! - A completion is fenced.
//!
//! A claim is one command, which returns the value that is there. A script replaces a value if it is still the one that was read.

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Result, bail, ensure};
use beside::{LEASE, WINDOW};
use md5::{Digest, Md5};
use redis::aio::MultiplexedConnection;
use redis::{Script, cmd};
use serde::{Deserialize, Serialize};

use crate::{Order, Receipt, handler};

/// How long the server keeps a claim whose run was killed, as the store does.
const CLAIM_KEPT: u64 = 14 * 24 * 60 * 60;

/// What is stored under a key, as JSON.
#[derive(Deserialize, Serialize)]
struct Stored {
    owner: String,
    /// In milliseconds since the epoch.
    lease_end: u128,
    /// The digest of what a duplicate must not change.
    payload: String,
    receipt: Option<Receipt>,
}

pub struct ByHand {
    connection: MultiplexedConnection,
    replace: Script,
}

impl ByHand {
    pub async fn connect(url: &str) -> Result<Self> {
        let client = redis::Client::open(url)?;
        Ok(Self {
            connection: client.get_multiplexed_async_connection().await?,
            replace: Script::new(
                "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
                 redis.call('SET', KEYS[1], ARGV[2], 'EX', ARGV[3])
                 return 1",
            ),
        })
    }

    /// Returns the receipt of an order, and whether it was stored before.
    pub async fn charge(&mut self, order: &Order) -> Result<(Receipt, bool)> {
        let key = format!("charge:{}", digest(&(&order.user, &order.order_id))?);
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis();
        // As a UUID of version 4: no other process has the same.
        let mut owner = [0; 16];
        getrandom::fill(&mut owner)?;
        let mut stored = Stored {
            owner: format!("{:032x}", u128::from_be_bytes(owner)),
            lease_end: now + LEASE.as_millis(),
            payload: digest(&order.amount)?,
            receipt: None,
        };
        let claim = serde_json::to_string(&stored)?;
        let mut set = cmd("SET");
        set.arg(&key).arg(&claim).arg("NX").arg("GET");
        set.arg("EX").arg(WINDOW.as_secs() + CLAIM_KEPT);
        let existing: Option<String> = set.query_async(&mut self.connection).await?;
        if let Some(text) = existing {
            let existing: Stored = serde_json::from_str(&text)?;
            ensure!(existing.payload == stored.payload, "another payload");
            if let Some(receipt) = existing.receipt {
                return Ok((receipt, true));
            }
            if existing.lease_end > now {
                bail!("in progress");
            }
            self.replace(&key, &text, &claim, CLAIM_KEPT).await?;
        }
        stored.receipt = Some(handler(order));
        let completed = serde_json::to_string(&stored)?;
        self.replace(&key, &claim, &completed, WINDOW.as_secs())
            .await?;
        Ok((stored.receipt.unwrap_or_default(), false))
    }

    async fn replace(&mut self, key: &str, old: &str, new: &str, seconds: u64) -> Result<()> {
        let mut replace = self.replace.key(key);
        replace.arg(old).arg(new).arg(seconds);
        let is_replaced: u8 = replace.invoke_async(&mut self.connection).await?;
        ensure!(is_replaced == 1, "the claim was lost");
        Ok(())
    }
}

fn digest(value: &impl Serialize) -> Result<String> {
    let digest: [u8; 16] = Md5::digest(serde_json::to_vec(value)?).into();
    Ok(format!("{:032x}", u128::from_be_bytes(digest)))
}
