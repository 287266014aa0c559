//! Sells vouchers: takes the price from an account, and writes the voucher.
//!
//! [`careless`] is not safe to retry, on purpose: `README.md` has the report of its test. [`careful`] does the
//! same and is safe. [`staged`] makes voucher codes as the careless one does, and is safe because it stages its writes.

pub mod careful;
pub mod careless;
pub mod staged;

use serde::{Deserialize, Serialize};

/// The table of the accounts and the vouchers. Its key is `id`.
pub const TABLE: &str = "shop";

/// An order of a voucher.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Order {
    /// The id that the customer's app gave to the order: the same in each retry.
    pub order_id: String,
    /// The account that pays.
    pub account: String,
    /// The price, in the smallest unit of the currency.
    pub price: u64,
}

/// A voucher that was sold.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Voucher {
    /// The code that the customer shows.
    pub code: String,
    /// What it is worth.
    pub worth: u64,
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use aws_sdk_dynamodb::Client;
    use aws_sdk_dynamodb::types::AttributeValue::{N, S};
    use idempotency_lambda::{
        BoxError, Context, LambdaEvent, MemoryStore, backend_over, with_backend,
    };
    use idempotency_testkit::dynamodb::{EmbeddedDynamoDb, TableSpec};
    use idempotency_testkit::retry_safety::{SafetyReport, World, retry_safety};

    use super::*;

    /// The page with the report of the careless function.
    const PAGE: &str = include_str!("../README.md");

    fn order(order_id: &str, price: u64) -> Order {
        let order_id = order_id.to_owned();
        let account = "account-1".to_owned();
        Order {
            order_id,
            account,
            price,
        }
    }

    async fn open_account(client: &Client) {
        let put = client.put_item().table_name(TABLE);
        let put = put.item("id", S("account-1".to_owned()));
        put.item("balance", N("1000".to_owned()))
            .send()
            .await
            .unwrap();
    }

    /// Checks a function that sells vouchers.
    async fn check(
        sell: impl AsyncFn(LambdaEvent<Order>, &Client) -> Result<Voucher, BoxError>
        + Send
        + Sync
        + 'static,
    ) -> SafetyReport {
        retry_safety(order("o-1", 50), async move |world: World, order: Order| {
            let event = LambdaEvent::new(order, world.context());
            sell(event, &world.dynamodb()).await
        })
        .table(TableSpec::new(TABLE).ttl(None))
        .prepare(async |world: World| open_account(&world.dynamodb()).await)
        .another(order("o-2", 50))
        .changed(order("o-1", 70))
        .run()
        .await
    }

    #[tokio::test]
    async fn the_careful_function_is_safe_to_retry() {
        check(async |event: LambdaEvent<Order>, client: &Client| {
            careful::sell(event, client).await
        })
        .await
        .assert_safe();
    }

    #[tokio::test]
    async fn the_careful_function_sells_no_voucher_unpaid_after_the_window() {
        let db = EmbeddedDynamoDb::start().await.unwrap();
        let table = TableSpec::new(TABLE).ttl(None);
        db.create_table(table).await.unwrap();
        let client = db.client();
        open_account(&client).await;
        let mut sold = Vec::new();
        for (account, price) in [("1", 50), ("1", 50), ("1", 70), ("2", 50)] {
            // Each store is empty, as if the record of the order had expired.
            let backend = backend_over(Arc::new(MemoryStore::new()));
            let mut order = order("o-1", price);
            order.account = format!("account-{account}");
            let event = LambdaEvent::new(order, Context::default());
            let sale = with_backend(backend, careful::sell(event, &client)).await;
            sold.push(sale.ok().map(|voucher| voucher.worth));
        }
        assert_eq!(sold, [Some(50), Some(50), None, None]);
        let account = client.get_item().table_name(TABLE);
        let account = account.key("id", S("account-1".to_owned())).send().await;
        let balance = &account.unwrap().item.unwrap()["balance"];
        assert_eq!(*balance, N("950".to_owned()), "the price was paid once");
    }

    #[tokio::test]
    async fn the_function_that_stages_its_writes_is_safe_to_retry() {
        let sell = async |event: LambdaEvent<Order>, _: &Client| staged::sell(event).await;
        check(sell).await.assert_safe();
    }

    #[tokio::test]
    async fn the_report_of_the_careless_function_is_the_published_one() {
        let report = check(async |event: LambdaEvent<Order>, client: &Client| {
            careless::sell(event, client).await
        })
        .await;
        assert!(!report.is_safe());
        assert!(
            PAGE.contains(&report.to_string()),
            "README.md does not have this report:\n{report}"
        );
    }
}
