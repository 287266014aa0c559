//! A value of `context` that has no context.

use idempotency_lambda::{BoxError, idempotent};

struct Job {
    order: u64,
}

#[idempotent(payload = job.order, context = job.order)]
async fn work(job: Job) -> Result<u64, BoxError> {
    Ok(job.order)
}

fn main() {}
