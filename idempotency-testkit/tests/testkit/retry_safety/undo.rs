//! Orders whose steps are undone: a safe one, and those with a bug that only a fault shows.

use std::sync::Arc;

use idempotency_lambda::{Steps, Token};

use super::http::{provider, send};
use super::*;

/// Two services. Each counts the requests that it accepts; one with the token of an earlier one is none.
#[derive(Default)]
struct Shop(Mutex<(BTreeSet<String>, BTreeMap<&'static str, usize>)>);

impl Shop {
    async fn ask(&self, request: &'static str, token: Option<&Token>) -> Result<(), BoxError> {
        let mut shop = self.0.lock().unwrap();
        if token.is_none_or(|token| shop.0.insert(token.to_string())) {
            *shop.1.entry(request).or_default() += 1;
        }
        Ok(())
    }

    async fn refund(self: Arc<Self>, token: Option<Token>) -> Result<(), BoxError> {
        self.ask("refund", token.as_ref()).await
    }
}

fn asked(request: &'static str) -> impl AsyncFn(World) -> usize + Send + Sync + 'static {
    async move |world: World| {
        let shop = world.fake::<Shop>();
        let asked = shop.0.lock().unwrap().1.get(request).copied();
        asked.unwrap_or_default()
    }
}

/// Checks an order that charges, and does then what `ends` does.
fn order_that(
    name: &'static str,
    with_token: bool,
    begins: impl AsyncFn(&Call) -> Result<bool, BoxError> + Send + Sync + 'static,
    ends: impl AsyncFn(&World, &Call) -> Result<Value, BoxError> + Send + Sync + 'static,
) -> RetrySafety<Value> {
    let operation = move || operation(name).steps(Steps::Keep);
    let handler = async move |world: &World, _: &Value, call: Call| {
        let shop = world.fake::<Shop>();
        if !begins(&call).await? {
            return Ok(call.undo(json!("refused")));
        }
        let charge = call.named_step("charge");
        let (token, bank) = (charge.token(), Arc::clone(&shop));
        let charge = charge.undo(move |(): (), token| {
            let token = Some(token).filter(|_| with_token);
            Arc::clone(&bank).refund(token)
        });
        charge.run(|| shop.ask("charge", Some(&token))).await?;
        ends(world, &call).await
    };
    let check = in_operation(order(), operation, handler);
    check
        .effect("charges", asked("charge"))
        .effect("refunds", asked("refund"))
}

async fn always(_: &Call) -> Result<bool, BoxError> {
    Ok(true)
}

/// The step `ship` is refused, and says so in its result.
async fn refused(_: &World, call: &Call) -> Result<Value, BoxError> {
    let parcel = call.step("ship", || async { Ok::<_, BoxError>(None::<u8>) });
    assert_eq!(parcel.await?, None);
    Ok(call.undo(json!("refused")))
}

#[tokio::test]
async fn an_order_that_is_undone_with_tokens_is_safe() {
    let report = order_that("undo-safe", true, always, refused).run().await;
    report.assert_safe();
    let points: Vec<_> = report.rows().iter().map(|row| &row.point).collect();
    assert!(
        points.len() > 20,
        "the points of the undoing are among them: {points:?}"
    );
}

#[tokio::test]
async fn an_undo_without_its_token_is_found() {
    let report = order_that("undo-token", false, always, refused).run().await;
    let unsafe_rows = report.unsafe_rows();
    assert_eq!(
        unsafe_rows[0].verdict,
        SafetyVerdict::EffectTwice,
        "{report}"
    );
    assert_eq!(unsafe_rows[0].findings, ["`refunds` is 2 instead of 1"]);
}

#[tokio::test]
async fn a_final_response_after_an_error_that_may_pass_is_found() {
    let order = order_that("undo-passing", true, always, async |world, call| {
        let ship = call.named_step("ship");
        let token = ship.token();
        let body = json!({});
        let sent = ship.run(|| send(world, "POST", "/parcels", Some(token.as_str()), &body));
        match sent.await {
            Ok(_) => Ok(json!("shipped")),
            // The parcel may be on its way.
            Err(_) => Ok(call.undo(json!("refused"))),
        }
    });
    let report = order.provider(provider()).run().await;
    let finds = |row: &&Row| {
        row.findings
            .iter()
            .any(|it| it.starts_with("`refunds` is 1"))
    };
    assert!(
        report.unsafe_rows().into_iter().any(|row| finds(&row)),
        "{report}"
    );
}

#[tokio::test]
async fn a_decision_before_the_step_of_a_killed_run_is_found() {
    let begins = async |call: &Call| Ok(call.which_run() == idempotency_lambda::Run::First);
    let report = order_that("undo-early", true, begins, refused).run().await;
    // The charge of the killed run has no record, so it is not refunded.
    let finds = |row: &&Row| {
        row.findings
            .iter()
            .any(|it| it.starts_with("`refunds` is 0"))
    };
    assert!(
        report.unsafe_rows().into_iter().any(|row| finds(&row)),
        "{report}"
    );
}

#[tokio::test]
async fn an_error_after_which_the_handler_goes_on_leaves_a_killed_undoing_stuck() {
    // The voucher is declined, so the card pays. A later run gets another error: the step has no record.
    let begins = async |call: &Call| {
        let declined = async || Err::<(), BoxError>("declined".into());
        match call.step("voucher", declined).await {
            Err(error) if error.is::<idempotency_lambda::Error>() => Err(error),
            _ => Ok(true),
        }
    };
    let is_stuck = async |order: RetrySafety<Value>| {
        let report = order.run().await;
        let held = |row: &&Row| row.verdict == SafetyVerdict::Held;
        assert_eq!(report.rows().iter().find(held), None, "{report}");
        let mut rows = report.unsafe_rows().into_iter();
        rows.any(|row| row.verdict == SafetyVerdict::Stuck)
    };
    assert!(is_stuck(order_that("undo-declined", true, begins, refused)).await);
    assert!(!is_stuck(order_that("undo-without", true, always, refused)).await);
}
