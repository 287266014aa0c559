//! Orders from SQS: each order is an operation, and only failed messages are delivered again.

mod warehouse;

pub use warehouse::Warehouse;

use std::sync::Arc;

use aws_lambda_events::sqs::{SqsBatchResponse, SqsEvent};
use idempotency_lambda::batch::Batch;
use idempotency_lambda::{BoxError, KeyRequired, LambdaEvent, Operation};
use serde::{Deserialize, Serialize};

/// The body of a message.
#[derive(Debug, Serialize, Deserialize)]
pub struct Order {
    /// The order.
    pub order_id: String,
    /// The customer.
    pub user_id: String,
    /// The lines of the order.
    pub items: Vec<Item>,
}

/// A line of an order.
#[derive(Debug, Serialize, Deserialize)]
pub struct Item {
    /// The article.
    pub sku: String,
    /// The number of pieces.
    pub quantity: u32,
}

/// The response for a reserved order.
#[derive(Debug, Serialize, Deserialize)]
pub struct Reservation {
    /// The order.
    pub order_id: String,
    /// The number of reserved pieces.
    pub reserved: u32,
}

/// What all events share: the operation, and the client of the warehouse.
#[derive(Debug)]
pub struct App {
    reserve: Operation,
    warehouse: Arc<Warehouse>,
}

impl App {
    /// Returns the function's state, over this warehouse.
    ///
    /// # Errors
    ///
    /// If a setting is invalid. The text names it and says what to write.
    pub fn new(warehouse: Arc<Warehouse>) -> Result<Self, BoxError> {
        let reserve = Operation::builder("orders.reserve")
            .key_prefix("orders.reserve")
            .key("order_id")
            .key_required(KeyRequired::All)
            .validate("items")
            .build()?;
        Ok(Self { reserve, warehouse })
    }

    /// Reserves stock for each order of the batch.
    ///
    /// # Errors
    ///
    /// If the batch cannot be handled at all. A message that fails is named in the response, and SQS delivers it again.
    pub async fn handler(
        &self,
        event: LambdaEvent<SqsEvent>,
    ) -> Result<SqsBatchResponse, BoxError> {
        let reserve = |order| self.warehouse.reserve(order);
        Ok(Batch::new(&self.reserve).run(event, reserve).await?)
    }
}

/// Starts the function.
///
/// # Errors
///
/// If a setting is invalid. The text names it and says what to write.
pub async fn start() -> Result<(), BoxError> {
    idempotency_lambda::metrics::to_cloudwatch("IdempotencyExamples")?;
    let app = &App::new(Arc::default())?;
    idempotency_lambda::run(move |event| app.handler(event)).await
}

#[cfg(test)]
mod tests;
