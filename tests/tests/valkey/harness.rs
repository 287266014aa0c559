//! The servers and the proxy do what the other tests count on.

use idempotency_lambda::BoxError;
use idempotency_tests::valkey::{Cluster, Server};
use idempotency_tests::{Proxy, WireFault};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

#[test]
fn an_acknowledged_change_outlives_a_kill() -> Result<(), BoxError> {
    let mut server = Server::start(&[])?;
    server.ask(&["SET", "key", "value"]);
    server.restart()?;
    assert_eq!(server.ask(&["GET", "key"]).text(), "value");
    let set = ["SET", "key", "value"].map(|word| word.as_bytes().to_vec());
    assert!(server.changes()?.contains(&set.to_vec()));
    Ok(())
}

#[test]
fn a_cluster_replaces_a_primary_that_died() -> Result<(), BoxError> {
    let mut cluster = Cluster::start()?;
    // `foo` has the slot 12182: the third primary has it.
    let moved = cluster.servers[0].ask(&["SET", "foo", "1"]).text();
    let port = cluster.servers[2].port();
    assert_eq!(moved, format!("MOVED 12182 127.0.0.1:{port}"));
    cluster.fail_over()?;
    assert_eq!(cluster.servers[3].ask(&["SET", "bar", "1"]).text(), "OK");
    Ok(())
}

#[tokio::test]
async fn a_fault_of_the_proxy_strikes_one_request() -> Result<(), BoxError> {
    let server = Server::start(&[])?;
    let proxy = Proxy::start(server.address()).await?;
    for (fault, applied, received) in [
        (WireFault::LoseRequest, false, 0),
        (WireFault::CutRequest, false, 0),
        (WireFault::LoseReply, true, 0),
        (WireFault::CutReply, true, 2),
    ] {
        server.ask(&["FLUSHALL"]);
        proxy.inject(fault);
        for expected in [received, 5] {
            let address = proxy.url().replace("redis://", "");
            let mut client = TcpStream::connect(address).await?;
            client
                .write_all(b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\nb\r\n")
                .await?;
            let mut reply = [0; 5];
            let mut length = 0;
            while length < 5 {
                match client.read(&mut reply[length..]).await {
                    Ok(read) if read > 0 => length += read,
                    _ => break,
                }
            }
            assert_eq!(length, expected, "{fault:?}");
            if expected == received {
                let is_there = server.ask(&["EXISTS", "a"]).text() == "1";
                assert_eq!(is_there, applied, "{fault:?}");
            }
        }
        assert_eq!(proxy.requests().len(), 2);
    }
    Ok(())
}
