//! The testkit as its users see it, in one program, because each program links the AWS SDK.

#![allow(clippy::unwrap_used)]

mod embedded_dynamodb;
mod events;
mod function_and_table;
mod local_lambda;
mod retry_safety;
