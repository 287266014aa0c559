//! Batches of SQS, Kinesis and DynamoDB streams: what runs, and what the partial batch response names.
#![allow(clippy::unwrap_used)]

mod attribute;
mod deliveries;
mod dynamodb_stream;
mod fifo;
mod hostile;
mod kinesis;
mod properties;
mod shop;
mod sqs;
mod staged;
mod store_error;
