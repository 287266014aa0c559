//! The connection between a replica and its primary.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Passes the bytes between a replica and its primary on, and can keep them back.
pub struct Tunnel {
    port: u16,
    /// True while bytes pass. They are kept back for ever after.
    passes: watch::Sender<bool>,
    /// Each connection whose bytes pass has a receiver.
    copying: Arc<watch::Sender<()>>,
    closed: watch::Sender<bool>,
}

impl Tunnel {
    /// Starts a tunnel to this server. It ends with the runtime that it was started on.
    ///
    /// # Errors
    ///
    /// If there is no unused port.
    pub async fn start(server: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let port = listener.local_addr()?.port();
        let (passes, closed) = (watch::Sender::new(true), watch::Sender::new(false));
        let (passing, closing) = (passes.subscribe(), closed.subscribe());
        let copying = Arc::new(watch::Sender::new(()));
        let copies = Arc::clone(&copying);
        tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                let (mut passing, mut closing) = (passing.clone(), closing.clone());
                let copies = copies.subscribe();
                tokio::spawn(async move {
                    let mut server = TcpStream::connect(server).await?;
                    let held = async {
                        let _ = passing.wait_for(|passes| !passes).await;
                    };
                    tokio::select! {
                        biased;
                        () = held => {}
                        copied = tokio::io::copy_bidirectional(&mut client, &mut server) => return copied.map(drop),
                    }
                    drop(copies);
                    // Neither end learns more until now.
                    let _ = closing.wait_for(|closed| *closed).await;
                    Ok(())
                });
            }
        });
        Ok(Self {
            port,
            passes,
            copying,
            closed,
        })
    }

    /// Returns the port for replicas.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Keeps all bytes back from now on.
    pub async fn hold(&self) {
        self.passes.send_replace(false);
        self.copying.closed().await;
    }

    /// Closes the connections, without what was kept back.
    pub fn close(&self) {
        self.closed.send_replace(true);
    }
}
