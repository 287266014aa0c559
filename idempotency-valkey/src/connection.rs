//! One server: connects to it, and notices a connection that is dead before a request is sent over it.
//!
//! A connection is for one request at a time. One whose request was given up or failed is closed, and no later request can get its reply.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::{Duration, Instant, SystemTime};

use idempotency_core::store::StoreErrorKind;
use rustls::CertificateError as Wrong;
use rustls::Error::InvalidCertificate;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::address::{Address, Target};
use crate::failure::{Failure, Next};
use crate::resp::{self, LONG, Value, command};

/// How long a connection may take, with its login and the first reply. A start waits for 2 s.
pub(crate) const CONNECT: Duration = Duration::from_millis(1_500);

/// How long a server may take to say that a connection is good, before a new one is made, or which slots it has, before another one is asked.
pub(crate) const PING: Duration = Duration::from_secs(1);

/// A connection that was not used for longer is tried first: Lambda may have frozen the process, or a device on the way may have forgotten it.
pub(crate) const TRUSTED_FOR: Duration = Duration::from_secs(10);

/// After so long without a reply, the runtime is given a turn before a send, to see whether the server has closed the connection.
const MOMENT: Duration = Duration::from_millis(50);

/// The most connections to one server. Each is for one request at a time.
pub(crate) const MOST: usize = 64;

/// A connection that was not used for longer is closed when another one was used.
const KEPT_FOR: Duration = Duration::from_secs(60);

/// How connections are made: the login, and TLS if there is any.
pub(crate) struct Connector {
    pub(crate) target: Target,
    pub(crate) tls: Option<TlsConnector>,
}

/// One server and the connections to it.
pub(crate) struct Server {
    pub(crate) address: Address,
    connector: Arc<Connector>,
    /// Those that no request uses, the last one used last.
    idle: Mutex<Vec<Connection>>,
    /// True after a request without a reply, until the next reply: the server may hang.
    suspect: AtomicBool,
    places: Semaphore,
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

struct Connection {
    stream: Box<dyn Stream>,
    /// What has been read of a reply.
    input: Vec<u8>,
    /// When the last reply came, on both clocks: one of them may stop while the process is frozen.
    replied: (Instant, SystemTime),
}

impl Connection {
    /// Returns how long no reply came.
    fn rested(&self) -> Duration {
        let (instant, time) = self.replied;
        longer(instant.elapsed(), time.elapsed().ok())
    }

    /// Returns true if the server has closed it, or has sent what no request asked for.
    async fn is_closed(&mut self) -> bool {
        let mut byte = [0];
        let mut byte = ReadBuf::new(&mut byte);
        poll_fn(|context| {
            let read = Pin::new(&mut self.stream).poll_read(context, &mut byte);
            Poll::Ready(read.is_ready() || !self.input.is_empty())
        })
        .await
    }

    /// Sends commands, and returns their replies.
    async fn ask(&mut self, commands: &[u8], replies: usize) -> io::Result<Vec<Value>> {
        self.stream.write_all(commands).await?;
        self.stream.flush().await?;
        // That of a long reply is not kept.
        self.input.shrink_to(LONG);
        let mut values = Vec::with_capacity(replies);
        while values.len() < replies {
            match resp::take(&mut self.input)? {
                Some(value) => values.push(value),
                None if self.stream.read_buf(&mut self.input).await? > 0 => {}
                None => return Err(io::ErrorKind::UnexpectedEof.into()),
            }
        }
        self.replied = (Instant::now(), SystemTime::now());
        Ok(values)
    }
}

/// Returns the longer of the times that two clocks say. A wall clock that was set back says nothing, so it counts as for ever.
fn longer(by_instant: Duration, by_time: Option<Duration>) -> Duration {
    by_instant.max(by_time.unwrap_or(Duration::MAX))
}

impl Server {
    pub(crate) fn new(address: Address, connector: Arc<Connector>) -> Self {
        Self {
            address,
            connector,
            idle: Mutex::default(),
            suspect: AtomicBool::new(false),
            places: Semaphore::new(MOST),
        }
    }

    /// Returns a connection that can be used, and makes one if there is none. `limit` is how long the caller waits for its request.
    ///
    /// # Errors
    ///
    /// If none can be made. Nothing was sent.
    pub(crate) async fn connect(&self, limit: Option<Duration>) -> Result<Link<'_>, Failure> {
        // It is never closed.
        let place = self.places.acquire().await.ok();
        // So that a caller with little time has some left for another server.
        let limit = limit.unwrap_or(Duration::MAX);
        loop {
            let last = self.idle().pop();
            let Some(mut connection) = last else {
                // Boxed, so that the future of every other request stays small.
                let opened = Box::pin(self.connector.open(&self.address, limit / 2)).await?;
                return Ok(Link::new(self, opened, place));
            };
            let rested = connection.rested();
            if rested > MOMENT {
                tokio::task::yield_now().await;
            }
            if connection.is_closed().await {
                continue;
            }
            // Until a reply comes, no other request waits for it.
            let link = Link::new(self, connection, place);
            if rested > TRUSTED_FOR || self.suspect.load(Ordering::Relaxed) {
                return Box::pin(self.tried(link, limit)).await;
            }
            return Ok(link);
        }
    }

    /// Returns this connection if a reply comes over it, and otherwise a new one.
    async fn tried<'a>(&'a self, mut link: Link<'a>, limit: Duration) -> Result<Link<'a>, Failure> {
        let ping = command(&["PING"]);
        let pinged = match &mut link.connection {
            Some(connection) => timeout(PING.min(limit / 3), connection.ask(&ping, 1)).await,
            None => return Ok(link),
        };
        if !matches!(pinged, Ok(Ok(_))) {
            self.idle().clear();
            link.connection = Some(self.connector.open(&self.address, limit / 2).await?);
        }
        Ok(link)
    }

    /// Forgets the connections: the next request makes a new one.
    pub(crate) fn disconnect(&self) {
        self.idle().clear();
    }

    /// Sets the time of the last reply back, as if the process had been frozen.
    #[cfg(test)]
    pub(crate) fn freeze(&self, long: Duration) {
        for connection in self.idle().iter_mut() {
            connection.replied.1 -= long;
        }
    }

    /// Returns the connections. A panic cannot leave them half written, so a poisoned lock is still good.
    fn idle(&self) -> MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection that can be used for one request.
pub(crate) struct Link<'a> {
    server: &'a Server,
    /// `None` after a reply.
    connection: Option<Connection>,
    _place: Option<SemaphorePermit<'a>>,
}

impl<'a> Link<'a> {
    fn new(server: &'a Server, connection: Connection, place: Option<SemaphorePermit<'a>>) -> Self {
        Self {
            server,
            connection: Some(connection),
            _place: place,
        }
    }

    /// Sends commands, and returns their replies.
    ///
    /// # Errors
    ///
    /// If the connection broke. An error of the server is a value.
    pub(crate) async fn send(
        mut self,
        commands: &[u8],
        replies: usize,
    ) -> Result<Vec<Value>, Failure> {
        let Some(connection) = &mut self.connection else {
            return Ok(Vec::new());
        };
        let replied = connection.ask(commands, replies).await;
        let values = replied.map_err(|error| Failure::broken(&error, &self.server.address))?;
        self.server.suspect.store(false, Ordering::Relaxed);
        let mut idle = self.server.idle();
        if idle.first().is_some_and(|first| first.rested() > KEPT_FOR) {
            idle.remove(0);
        }
        idle.extend(self.connection.take());
        Ok(values)
    }
}

/// Closes the connection, unless a reply came: the send was given up, or failed. Other ones to the same server are tried first.
impl Drop for Link<'_> {
    fn drop(&mut self) {
        if self.connection.is_some() {
            self.server.suspect.store(true, Ordering::Relaxed);
        }
    }
}

impl Connector {
    /// Connects within a time, logs in, and waits for a reply.
    async fn open(&self, address: &Address, limit: Duration) -> Result<Connection, Failure> {
        let password = match &self.target.password {
            Some(password) => Some(password.next().await.map_err(|error| {
                let text = format!(
                    "there is no password for {address}: correct the function that returns it ({error})"
                );
                Failure::unsent(StoreErrorKind::Credentials, text)
            })?),
            None => None,
        };
        let limit = CONNECT.min(limit);
        let made = timeout(limit, self.connect(address, password.as_deref())).await;
        made.unwrap_or_else(|_| {
            let tls = self.tls.as_ref().map_or("", |_| ", and that it serves TLS");
            let text = format!(
                "no connection to {address} within {limit:?}: check that it replies, its address, the network and the security groups{tls}"
            );
            Err(Failure::unsent_for_long(text))
        })
    }

    async fn connect(
        &self,
        address: &Address,
        password: Option<&str>,
    ) -> Result<Connection, Failure> {
        let Address { host, port } = address;
        let stream = TcpStream::connect((host.as_str(), *port)).await;
        let stream = stream.map_err(|error| {
            let text = format!("no connection to {address} ({error}): check its address, that it runs, the network and the security groups");
            Failure::unsent(StoreErrorKind::Unreachable, text)
        })?;
        // A request is one write, which must not wait for more.
        let _ = stream.set_nodelay(true);
        let Some(tls) = &self.tls else {
            return self.log_in(Box::new(stream), address, password).await;
        };
        let name = ServerName::try_from(host.clone()).map_err(|_| {
            let text = format!("{address} has no name that a certificate can have: check the URL");
            Failure::unsent(StoreErrorKind::Certificate, text)
        })?;
        let stream = tls.connect(name, stream).await;
        let stream = stream.map_err(|error| tls_failed(&error, address))?;
        self.log_in(Box::new(stream), address, password).await
    }

    async fn log_in(
        &self,
        stream: Box<dyn Stream>,
        address: &Address,
        password: Option<&str>,
    ) -> Result<Connection, Failure> {
        let replied = (Instant::now(), SystemTime::now());
        let mut connection = Connection {
            stream,
            input: Vec::with_capacity(1_024),
            replied,
        };
        let (user, database) = (
            self.target.user.as_deref(),
            self.target.database.to_string(),
        );
        let mut hello: Vec<Vec<&str>> = Vec::new();
        if let Some(password) = password {
            hello.push(["AUTH"].into_iter().chain(user).chain([password]).collect());
        }
        if database != "0" {
            hello.push(vec!["SELECT", &database]);
        }
        // For a server that hangs, its kernel accepts connections too.
        hello.push(vec!["PING"]);
        let commands: Vec<u8> = hello.iter().flat_map(|words| command(words)).collect();
        let replies = connection.ask(&commands, hello.len()).await;
        let replies = replies.map_err(|error| {
            let text = format!(
                "{address} closed the connection ({error}): check that it is a Valkey or Redis server, whether it needs TLS (`rediss://`), and its `maxclients`"
            );
            Failure::unsent(StoreErrorKind::Unreachable, text)
        })?;
        for (reply, words) in replies.into_iter().zip(hello) {
            if let Value::Error(error) = reply {
                refused(Failure::of(&error, address), words[0], address)?;
            }
        }
        Ok(connection)
    }
}

/// Returns the failure of a TLS handshake.
fn tls_failed(error: &io::Error, address: &Address) -> Failure {
    let of_tls = error.get_ref().and_then(|it| it.downcast_ref());
    let advice = match of_tls {
        Some(InvalidCertificate(Wrong::NotValidForName | Wrong::NotValidForNameContext { .. })) => {
            "in the URL, write the name that its certificate is for"
        }
        Some(InvalidCertificate(Wrong::UnknownIssuer)) => {
            "set SSL_CERT_FILE to a file with its certificate authority"
        }
        Some(InvalidCertificate(_)) => "check its certificate",
        _ => "check that it serves TLS (`rediss://`)",
    };
    let kind = match of_tls {
        Some(_) => StoreErrorKind::Certificate,
        None => StoreErrorKind::Unreachable,
    };
    Failure::unsent(
        kind,
        format!("no TLS connection to {address} ({error}): {advice}"),
    )
}

/// Returns the failure of a connection over which the server has refused this command, unless it may perform others.
fn refused(failure: Failure, command: &str, address: &Address) -> Result<(), Failure> {
    let Failure {
        maybe_applied,
        next,
        ..
    } = &failure;
    let (kind, advice) = match command {
        // For every command: it is full, or loads its data.
        _ if *next == Next::Pause => return Err(failure),
        "AUTH" => (
            StoreErrorKind::Credentials,
            "login: check IDEMPOTENCY_VALKEY_USER and IDEMPOTENCY_VALKEY_PASSWORD, or those of the URL",
        ),
        "SELECT" if *maybe_applied => (
            StoreErrorKind::Rejected,
            "connection: check the database number of the URL, which is 0 in a cluster",
        ),
        // A server that cannot write to its disk says so, and reads.
        "PING" if !maybe_applied && failure.error.kind() != StoreErrorKind::Credentials => {
            return Ok(());
        }
        _ => {
            return Err(Failure {
                maybe_applied: false,
                ..failure
            });
        }
    };
    Err(Failure::unsent(
        kind,
        format!("{address} refused the {advice}"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_trusted_as_long_as_both_clocks_say() {
        let (short, long) = (MOMENT, TRUSTED_FOR);
        assert_eq!(longer(short, Some(short)), short);
        assert_eq!(longer(long, Some(short)), long);
        assert_eq!(longer(short, Some(long)), long);
        assert_eq!(longer(short, None), Duration::MAX);
    }
}
