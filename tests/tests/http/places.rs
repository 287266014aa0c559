//! Deadlines, tenants and callers: what keeps requests with one key apart.

use crate::harness::{Claim, FUNCTIONS, Harness, now};
use crate::source::{Received, Request, Source};

async fn send(
    harness: &Harness,
    source: Source,
    request: &Request,
    tenant: &str,
    deadline: u64,
) -> Received {
    let invocation = harness.process.invoke(request.event(source));
    let reply = invocation.tenant(tenant).deadline(deadline).await.unwrap();
    Received::read(source, &reply.json().unwrap())
}

#[tokio::test]
async fn the_lease_ends_with_the_invocation_and_two_tenants_never_share() {
    for (role, sources) in FUNCTIONS.into_iter().chain([
        ("own runtime", &Source::ALL[..1]),
        ("route", &Source::ALL[1..2]),
    ]) {
        let harness = Harness::start(role).await;
        let request = Request::post("/payments", "\"k-1\"");
        let deadline = now() + 20_000;
        let blue = send(&harness, sources[0], &request, "blue", deadline + 1).await;
        let green = send(&harness, sources[0], &request, "green", deadline + 2).await;
        let again = send(&harness, sources[0], &request, "blue", deadline + 3).await;
        assert_ne!(blue.body, green.body, "{role}");
        assert_eq!(blue.body, again.body, "{role}");
        assert_eq!(again.header("idempotent-replayed"), Some("true"), "{role}");
        let claims = harness.claims();
        assert_eq!(claims.len(), 3, "{role}: {claims:?}");
        for (Claim { id, lease_ends }, (tenant, end)) in
            claims.iter().zip([("blue", 1), ("green", 2), ("blue", 3)])
        {
            assert!(
                id.starts_with(&format!("pay#tenant={tenant}#")),
                "{role}: {id}"
            );
            assert_eq!(*lease_ends, deadline + end, "{role}");
        }
    }
}

#[tokio::test]
async fn a_streaming_runtime_replays_and_the_lease_ends_with_the_invocation() {
    let harness = Harness::start("lambda_http, streaming").await;
    let request = Request::post("/payments", "\"k-1\"");
    let deadline = now() + 20_000;
    for _ in 0..2 {
        let invocation = harness.process.invoke(request.event(Source::ApiGatewayV2));
        let reply = invocation.deadline(deadline).await.unwrap();
        assert!(reply.payload.contains(r#"{"run":1}"#), "{}", reply.payload);
    }
    // The layer sees the whole body of this router: only the way to the client is a stream.
    assert_eq!(harness.claims()[0].lease_ends, deadline);
}

/// The attack that a key without the caller allows: a client guesses or learns the key of another client.
#[tokio::test]
async fn a_client_that_sends_the_key_of_another_client_gets_a_run_of_its_own() {
    for (role, sources) in FUNCTIONS {
        let harness = Harness::start(role).await;
        for &source in sources {
            let request = Request::post("/payments", &format!("\"{source:?}\""));
            let victim = harness.send(source, &request.clone().of(Some("u-1"))).await;
            let attacker = harness.send(source, &request.of(Some("u-2"))).await;
            assert_eq!(attacker.status, 201, "{role} {source:?}");
            assert_eq!(
                attacker.header("idempotent-replayed"),
                None,
                "{role} {source:?}"
            );
            assert_ne!(attacker.body, victim.body, "{role} {source:?}");
        }
    }
}

#[tokio::test]
async fn a_client_cannot_write_the_caller_itself() {
    let harness = Harness::start("v2").await;
    let mut request = Request::post("/payments", "\"k-1\"").of(None);
    request
        .headers
        .push(("X-Amzn-Oidc-Identity", "u-1".to_owned()));
    request.headers.push(("requestContext", "u-1".to_owned()));
    let received = harness.send(Source::ApiGatewayV2, &request).await;
    assert_eq!(received.status, 403);
}
