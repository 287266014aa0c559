//! Counts round trips: a proxy before the server, on a thread of its own.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use anyhow::Result;

/// How often the client sent something after a reply.
pub struct Counter {
    address: String,
    trips: Arc<AtomicU64>,
}

impl Counter {
    /// Starts a proxy before this server.
    pub fn start(server: &str) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let (address, server) = (listener.local_addr()?.to_string(), server.to_owned());
        let trips = Arc::new(AtomicU64::new(0));
        let counted = trips.clone();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(server) = TcpStream::connect(&server) else {
                    return;
                };
                pass(&client, &server, counted.clone());
            }
        });
        Ok(Self { address, trips })
    }

    pub fn address(&self) -> &str {
        &self.address
    }

    pub fn read(&self) -> u64 {
        self.trips.load(Ordering::SeqCst)
    }
}

/// Passes on what the two send. What one sends while the other has not replied is one trip.
fn pass(client: &TcpStream, server: &TcpStream, trips: Arc<AtomicU64>) {
    let is_replied = Arc::new(AtomicBool::new(true));
    for (from, to, of_client) in [(client, server, true), (server, client, false)] {
        let (Ok(mut from), Ok(mut to)) = (from.try_clone(), to.try_clone()) else {
            return;
        };
        let (trips, is_replied) = (trips.clone(), is_replied.clone());
        thread::spawn(move || {
            let mut buffer = vec![0; 65_536];
            while let Ok(read @ 1..) = from.read(&mut buffer) {
                if is_replied.swap(!of_client, Ordering::SeqCst) && of_client {
                    trips.fetch_add(1, Ordering::SeqCst);
                }
                if to.write_all(&buffer[..read]).is_err() {
                    return;
                }
            }
        });
    }
}
