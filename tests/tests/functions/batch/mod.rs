//! Batches of SQS, Kinesis and DynamoDB streams: what runs, and what the partial batch response names.

mod attribute;
pub(crate) mod deliveries;
mod hostile;
mod kinesis;
mod properties;
mod shop;
mod sqs;
