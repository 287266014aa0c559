//! Transfers of money between two accounts: the handler stages the writes, and they are applied together with its response.
//!
//! Kills at every request, lost replies, slow owners, writes that arrive late. At the end the balances are exact, and each response
//! agrees with the ledger. `TRANSFERS=10000 cargo test -p idempotency-tests --test dynamodb crowd` makes more of them;
//! `TRANSFERS_DYNAMODB_ENDPOINT` names a DynamoDB to use instead of the embedded one, such as AWS's DynamoDB Local.

mod bank;
mod single;
