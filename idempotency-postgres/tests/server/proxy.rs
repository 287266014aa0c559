//! A proxy between a client and a server, which counts what the client sends and breaks connections.

use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// What happens to a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The connection closes, and the server does not get the statement.
    LoseRequest,
    /// The server executes the statement, and the connection closes.
    LoseReply,
    /// The server executes the statement, and its reply is that of PgBouncer for a server that ended.
    ServerEnds,
    /// The connection stays open, and nothing follows.
    Hang,
}

#[derive(Default)]
struct State {
    fault: Option<Fault>,
    commit_fault: Option<Fault>,
    trips: usize,
}

/// The proxy. It ends with the runtime that it was started on.
#[derive(Clone)]
pub(crate) struct Proxy {
    port: u16,
    state: Arc<Mutex<State>>,
}

impl Proxy {
    /// Starts a proxy before the server with this address.
    pub(crate) async fn start(server: String) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let proxy = Self {
            port,
            state: Arc::default(),
        };
        let accepting = proxy.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (proxy, server) = (accepting.clone(), server.clone());
                tokio::spawn(async move { proxy.serve(client, server).await });
            }
        });
        proxy
    }

    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Lets this happen to the next statement that is executed.
    pub(crate) fn inject(&self, fault: Fault) {
        self.state().fault = Some(fault);
    }

    /// Lets this happen to the next commit of a transaction.
    pub(crate) fn inject_at_commit(&self, fault: Fault) {
        self.state().commit_fault = Some(fault);
    }

    /// Returns how often a client sent something to execute or to prepare since the last call.
    pub(crate) fn trips(&self) -> usize {
        std::mem::take(&mut self.state().trips)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Passes bytes on until one side closes. A client sends what belongs together at once, so the first byte says what it is.
    async fn serve(&self, mut client: TcpStream, server: String) -> std::io::Result<()> {
        let mut server = TcpStream::connect(server).await?;
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        let (mut sent, mut reply) = (vec![0; 65_536], vec![0; 65_536]);
        loop {
            tokio::select! {
                read = client.read(&mut sent) => {
                    let length = read?;
                    if length == 0 {
                        return Ok(());
                    }
                    match self.fault_of(&sent[..length]) {
                        None => server.write_all(&sent[..length]).await?,
                        Some(Fault::LoseRequest) => return Ok(()),
                        Some(Fault::LoseReply) => {
                            server.write_all(&sent[..length]).await?;
                            // The reply comes after the commit.
                            let _ = server.read(&mut reply).await?;
                            return Ok(());
                        }
                        Some(Fault::ServerEnds) => {
                            server.write_all(&sent[..length]).await?;
                            let _ = server.read(&mut reply).await?;
                            let fields = b"SFATAL\0VFATAL\0C08P01\0Mserver conn crashed?\0\0";
                            let length = u32::try_from(fields.len() + 4).unwrap();
                            client.write_all(&[b"E", &length.to_be_bytes()[..], fields].concat()).await?;
                            return Ok(());
                        }
                        Some(Fault::Hang) => while client.read(&mut sent).await? > 0 {},
                    }
                }
                read = server.read(&mut reply) => {
                    let length = read?;
                    if length == 0 {
                        return Ok(());
                    }
                    client.write_all(&reply[..length]).await?;
                }
            }
        }
    }

    /// Counts a message of a client, and returns what happens to it.
    fn fault_of(&self, sent: &[u8]) -> Option<Fault> {
        let (kind, mut state) = (sent[0], self.state());
        // Bind, Parse and Query.
        state.trips += usize::from(matches!(kind, b'B' | b'P' | b'Q'));
        match kind {
            b'B' => state.fault.take(),
            b'Q' if sent.ends_with(b"COMMIT\0") => state.commit_fault.take(),
            _ => None,
        }
    }
}
