//! A password that changes, as a token of IAM does: a function returns it before each connection.

use std::sync::{Arc, Mutex};

use idempotency_lambda::BoxError;
use idempotency_tests::End;
use idempotency_tests::valkey::Server;
use idempotency_valkey::ValkeyStore;

use super::Calls;

#[tokio::test]
async fn each_connection_has_the_password_of_its_time() -> Result<(), BoxError> {
    let server = Server::start(&[])?;
    server.ask(&["ACL", "SETUSER", "app", "on", ">first", "~*", "+@all"]);
    let token = Arc::new(Mutex::new("first"));
    let source = Arc::clone(&token);
    let next = move || {
        let token = source.lock().unwrap().to_owned();
        async move { Ok::<_, BoxError>(token) }
    };
    let store = ValkeyStore::builder(server.url()).user("app");
    let store = Arc::new(store.password_from(next).build()?);
    let calls = Calls::default();
    assert_eq!(calls.call(&store, "1").await, End::Ran(1));

    server.ask(&["ACL", "SETUSER", "app", "resetpass", ">second"]);
    *token.lock().unwrap() = "second";
    assert_eq!(calls.call(&store, "1").await, End::Replayed(1));
    server.ask(&["CLIENT", "KILL", "USER", "app"]);
    assert_eq!(calls.call(&store, "2").await, End::Ran(2));
    assert_eq!(calls.call(&store, "2").await, End::Replayed(2));

    let none = || async { Err::<String, _>("no role") };
    let store = Arc::new(
        ValkeyStore::builder(server.url())
            .password_from(none)
            .build()?,
    );
    let error = calls.error(&store, "3").await;
    let said = "there is no password for 127.0.0.1";
    assert!(
        error.contains(said) && error.contains("(no role)"),
        "{error}"
    );
    assert_eq!(calls.runs(), 2);
    Ok(())
}
