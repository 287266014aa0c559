//! Batches of SQS, Kinesis and DynamoDB streams: what runs, and what the partial batch response names.

mod shop;
mod sqs;
