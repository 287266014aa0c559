//! The steps of a run, whose results are in the one value of its record.

use std::time::Duration;

use futures_util::future::join_all;
use idempotency_core::system::SystemClock;
use idempotency_core::time::Clock;
use idempotency_lambda::{BoxError, Call, Deadline, Steps, with_backend};
use idempotency_tests::valkey::Server;
use idempotency_tests::{End, end, keyed};
use serde_json::json;

use super::{process, started};

#[tokio::test]
async fn all_steps_that_run_beside_each_other_are_recorded() -> Result<(), BoxError> {
    let server = Server::start(&[])?;
    let store = started(&server.url()).await;
    let operation = keyed(|it| {
        it.steps(Steps::Keep)
            .expires_after(Duration::from_secs(3_600))
    });
    let deadline = Deadline::At(SystemClock.now().plus(Duration::from_secs(30)));
    let order = json!({ "order_id": "1" });
    let call = operation.run(&order, deadline, async |call: Call| {
        let step = async |number: u32| {
            let name = format!("ship {number}");
            call.step(&name, || async { Ok::<_, BoxError>(number) })
                .await
        };
        let ended = join_all((0..100).map(step)).await;
        ended.into_iter().collect::<Result<Vec<_>, _>>()
    });
    let ended = end(with_backend(process(store.clone()), call).await);
    assert_eq!(ended, End::Ran((0..100).collect::<Vec<_>>()));
    Ok(())
}
