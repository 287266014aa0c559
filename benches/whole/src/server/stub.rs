//! A stand-in for DynamoDB that responds from memory: one thread for each connection, so that no request waits for another one.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use rustls::{ServerConfig, ServerConnection, StreamOwned};

use super::Requests;
use super::http;
use super::table::Table;
use super::tls::Tls;

/// How much later a late response is sent.
const LATE: Duration = Duration::from_millis(50);

/// The stand-in. Its threads end with the process.
pub struct Stub {
    address: SocketAddr,
    shared: Arc<Shared>,
    tls: Option<Tls>,
}

#[derive(Default)]
struct Shared {
    table: Table,
    requests: Mutex<Requests>,
    is_late: bool,
    responses: AtomicU64,
}

impl Stub {
    /// Listens on a port of the loopback interface. If `is_late` is true, one response of a hundred is sent [`LATE`] later.
    pub fn start(through_tls: bool, is_late: bool) -> anyhow::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let tls = through_tls.then(Tls::new).transpose()?;
        let shared = Arc::new(Shared {
            is_late,
            ..Shared::default()
        });
        let (config, kept) = (tls.as_ref().map(Tls::server), Arc::clone(&shared));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (config, shared) = (config.clone(), Arc::clone(&shared));
                // A connection ends with its client.
                thread::spawn(move || drop(connection(stream, config, &shared)));
            }
        });
        Ok(Self {
            address,
            shared: kept,
            tls,
        })
    }

    pub fn environment(&self) -> Vec<(String, String)> {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        let endpoint = format!("{scheme}://{}", self.address);
        let mut variables = vec![
            ("AWS_ENDPOINT_URL_DYNAMODB".to_owned(), endpoint),
            ("AWS_REGION".to_owned(), "eu-central-1".to_owned()),
            ("AWS_ACCESS_KEY_ID".to_owned(), "test".to_owned()),
            ("AWS_SECRET_ACCESS_KEY".to_owned(), "test".to_owned()),
        ];
        variables.extend(self.tls.iter().flat_map(Tls::environment));
        variables
    }

    pub fn take_requests(&self) -> Requests {
        let mut requests = self
            .shared
            .requests
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut requests)
    }
}

fn connection(
    stream: TcpStream,
    config: Option<Arc<ServerConfig>>,
    shared: &Shared,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    match config {
        None => serve(stream, shared),
        Some(config) => {
            let session = ServerConnection::new(config).map_err(io::Error::other)?;
            serve(StreamOwned::new(session, stream), shared)
        }
    }
}

fn serve(mut stream: impl Read + Write, shared: &Shared) -> io::Result<()> {
    let mut received = Vec::with_capacity(64 * 1024);
    let mut response = Vec::with_capacity(64 * 1024);
    while let Some(request) = http::read(&mut stream, &mut received)? {
        {
            let mut requests = shared
                .requests
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            match requests.get_mut(&request.operation) {
                Some(count) => *count += 1,
                None => drop(requests.insert(request.operation.clone(), 1)),
            }
        }
        let (status, body) = shared
            .table
            .apply(&request.operation, &received[request.body.clone()]);
        if shared.is_late && shared.responses.fetch_add(1, Ordering::Relaxed) % 100 == 99 {
            thread::sleep(LATE);
        }
        http::write(&mut response, status, &body);
        stream.write_all(&response)?;
        stream.flush()?;
        received.drain(..request.body.end);
    }
    Ok(())
}
