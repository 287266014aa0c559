//! A process that was frozen, as Lambda freezes one between two events: its connection was closed meanwhile, or leads nowhere.

use idempotency_lambda::BoxError;
use idempotency_tests::End;
use idempotency_tests::valkey::Server;

use super::{Calls, store};

/// A runtime of one thread, which does nothing between two calls.
fn runtime() -> tokio::runtime::Runtime {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().build().unwrap()
}

#[test]
fn a_connection_that_the_server_closed_during_a_freeze_costs_no_event() -> Result<(), BoxError> {
    let mut server = Server::start(&[])?;
    let (store, calls, runtime) = (store(&server.url()), Calls::default(), runtime());
    assert_eq!(runtime.block_on(calls.call(&store, "1")), End::Ran(1));
    server.ask(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
    assert_eq!(runtime.block_on(calls.call(&store, "2")), End::Ran(2));
    server.restart()?;
    assert_eq!(runtime.block_on(calls.call(&store, "3")), End::Ran(3));
    assert_eq!(runtime.block_on(calls.call(&store, "3")), End::Replayed(3));
    Ok(())
}
