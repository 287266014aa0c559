//! Two commands of `redis`, as an engineer who knows Valkey writes them: a claim that brings back what is there, and a completion that
//! checks the owner.

use anyhow::{Result, bail, ensure};
use redis::aio::MultiplexedConnection;
use redis::{Script, cmd};
use serde::{Deserialize, Serialize};

use crate::{LEASE, Order, Receipt, WINDOW, handler};

/// What is stored under a key, as JSON.
#[derive(Deserialize, Serialize)]
struct Stored {
    owner: String,
    amount: u64,
    receipt: Option<Receipt>,
}

pub struct ByHand {
    connection: MultiplexedConnection,
    complete: Script,
}

impl ByHand {
    pub async fn connect(url: &str) -> Result<Self> {
        let client = redis::Client::open(url)?;
        Ok(Self {
            connection: client.get_multiplexed_async_connection().await?,
            // Only while the claim is still this one.
            complete: Script::new(
                "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
                 redis.call('SET', KEYS[1], ARGV[2], 'EX', ARGV[3])
                 return 1",
            ),
        })
    }

    /// Returns the receipt of an order, and whether it was stored before.
    pub async fn charge(&mut self, order: &Order) -> Result<(Receipt, bool)> {
        let key = format!("by-hand:{}:{}", order.user, order.order_id);
        let mut stored = Stored {
            owner: format!("{:032x}", fastrand::u128(..)),
            amount: order.amount,
            receipt: None,
        };
        let claim = serde_json::to_string(&stored)?;
        let mut set = cmd("SET");
        set.arg(&key)
            .arg(&claim)
            .arg("NX")
            .arg("GET")
            .arg("EX")
            .arg(LEASE.as_secs());
        let existing: Option<String> = set.query_async(&mut self.connection).await?;
        if let Some(existing) = existing {
            let existing: Stored = serde_json::from_str(&existing)?;
            ensure!(existing.amount == order.amount, "another amount");
            let Some(receipt) = existing.receipt else {
                bail!("in progress")
            };
            return Ok((receipt, true));
        }
        stored.receipt = Some(handler(order));
        let mut complete = self.complete.key(&key);
        complete
            .arg(&claim)
            .arg(serde_json::to_string(&stored)?)
            .arg(WINDOW.as_secs());
        let is_applied: u8 = complete.invoke_async(&mut self.connection).await?;
        ensure!(is_applied == 1, "the claim was lost");
        Ok((stored.receipt.unwrap_or_default(), false))
    }
}
