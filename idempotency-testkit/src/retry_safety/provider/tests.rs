use super::*;

fn http(provider: Provider) -> Http {
    Http::new(provider, Arc::new(Listener::bind().unwrap()))
}

fn request(method: &str, body: Value, token: Option<&str>) -> ProviderRequest {
    let token = token.map(|token| ("idempotency-key".to_owned(), token.to_owned()));
    ProviderRequest {
        method: method.to_owned(),
        path: "/charges".to_owned(),
        query: String::new(),
        headers: token.into_iter().collect(),
        body,
        number: 0,
    }
}

fn numbered() -> Provider {
    Provider::new(|request| ProviderReply::json(201, &json!(request.number)))
}

#[test]
fn a_token_that_is_honoured_is_applied_once_and_another_request_with_it_is_refused() {
    let http = http(numbered().honours("Idempotency-Key"));
    let first = http.apply(request("POST", json!(1), Some("a")));
    assert_eq!(http.apply(request("POST", json!(1), Some("a"))), first);
    assert_eq!(http.apply(request("POST", json!(2), Some("a"))).status, 422);
    assert_eq!(http.applied().len(), 1);
    http.apply(request("POST", json!(1), Some("b")));
    http.apply(request("POST", json!(1), None));
    assert_eq!(http.applied().len(), 3);
}

#[test]
fn a_token_that_is_not_honoured_changes_nothing() {
    let http = http(numbered());
    http.apply(request("POST", json!(1), Some("a")));
    http.apply(request("POST", json!(1), Some("a")));
    assert_eq!(http.applied().len(), 2);
}

#[test]
fn a_put_that_was_applied_before_is_no_further_effect_and_a_get_is_none() {
    let http = http(numbered());
    for body in [1, 1, 2] {
        http.apply(request("PUT", json!(body), None));
    }
    http.apply(request("GET", Value::Null, None));
    assert_eq!(http.applied().len(), 2);
}

#[test]
fn a_reply_that_refuses_is_no_effect_and_is_not_kept_for_its_token() {
    let declines_once = Mutex::new(true);
    let http = http(
        Provider::new(move |_| {
            let declined = std::mem::replace(&mut *declines_once.lock().unwrap(), false);
            ProviderReply::empty(if declined { 402 } else { 201 })
        })
        .honours("idempotency-key"),
    );
    assert_eq!(http.apply(request("POST", json!(1), Some("a"))).status, 402);
    assert!(http.applied().is_empty());
    assert_eq!(http.apply(request("POST", json!(1), Some("a"))).status, 201);
    assert_eq!(http.applied().len(), 1);
}
