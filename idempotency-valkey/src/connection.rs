//! One server: connects to it, and notices a connection that is dead before a request is sent over it.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use idempotency_core::store::{StoreError, StoreErrorKind};
use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Cmd, Pipeline, RedisConnectionInfo, RedisError, RedisResult, Value,
};
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::address::{Address, Target};
use crate::failure::{Failure, Next};

/// How long a connection may take, with its login and the first reply. A start waits for 2 s.
pub(crate) const CONNECT: Duration = Duration::from_millis(1_500);

/// How long a server may take to say that a connection is good, before a new one is made, or which slots it has, before another one is asked.
pub(crate) const PING: Duration = Duration::from_secs(1);

/// A connection that was not used for longer is tried first: Lambda may have frozen the process, or a device on the way may have forgotten it.
pub(crate) const TRUSTED_FOR: Duration = Duration::from_secs(10);

/// After so long without a reply, the task of a connection is given a turn before a send.
const MOMENT: Duration = Duration::from_millis(50);

/// How connections are made: the login, and TLS if there is any.
pub(crate) struct Connector {
    pub(crate) target: Target,
    pub(crate) tls: Option<TlsConnector>,
}

/// One server and the connection to it.
pub(crate) struct Server {
    pub(crate) address: Address,
    connector: Arc<Connector>,
    state: Mutex<State>,
    /// Held while a connection is made, so that concurrent requests make one.
    connecting: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct State {
    live: Option<Live>,
    /// True if the last request had no reply: the connection may be dead.
    suspect: bool,
}

/// A connection that was made.
struct Live {
    connection: MultiplexedConnection,
    /// Ends when the connection is closed.
    driver: JoinHandle<()>,
    /// When the last reply came, on both clocks: one of them may stop while the process is frozen.
    replied: (Instant, SystemTime),
}

impl Live {
    /// Returns how long no reply came.
    fn rested(&self) -> Duration {
        let (instant, time) = self.replied;
        longer(instant.elapsed(), time.elapsed().ok())
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
            state: Mutex::default(),
            connecting: tokio::sync::Mutex::default(),
        }
    }

    /// Returns a connection that can be used, and makes one if there is none.
    ///
    /// # Errors
    ///
    /// If none can be made. Nothing was sent.
    pub(crate) async fn connect(&self) -> Result<Link<'_>, Failure> {
        if let Some((connection, has_rested)) = self.usable() {
            if !has_rested {
                return Ok(self.link(connection));
            }
            // The task of the connection sees now whether the server has closed it.
            tokio::task::yield_now().await;
        }
        if let Some((connection, _)) = self.usable() {
            return Ok(self.link(connection));
        }
        // Boxed, so that the future of every other request stays small.
        Box::pin(self.reconnect()).await
    }

    async fn reconnect(&self) -> Result<Link<'_>, Failure> {
        let _one = self.connecting.lock().await;
        if let Some((connection, _)) = self.usable() {
            return Ok(self.link(connection));
        }
        if let Some(mut connection) = self.open() {
            let ping = redis::cmd("PING");
            let pinged = timeout(PING, connection.send_packed_command(&ping)).await;
            if matches!(pinged, Ok(Ok(_))) {
                self.has_replied();
                return Ok(self.link(connection));
            }
            // So the next request does not wait for it again.
            self.disconnect();
        }
        let made = timeout(CONNECT, self.connector.connect(&self.address)).await;
        let (connection, driver) = match made {
            Ok(made) => made?,
            Err(_) => return Err(Failure::unsent_for_long(self.too_slow())),
        };
        *self.state() = State {
            live: Some(Live {
                connection: connection.clone(),
                driver,
                replied: (Instant::now(), SystemTime::now()),
            }),
            suspect: false,
        };
        Ok(self.link(connection))
    }

    fn too_slow(&self) -> StoreError {
        let tls = match self.connector.tls {
            Some(_) => ", and that it serves TLS",
            None => "",
        };
        let text = format!(
            "no connection to {} within {CONNECT:?}: check that it replies, its address, the network and the security groups{tls}",
            self.address
        );
        StoreError::new(StoreErrorKind::Unreachable, text)
    }

    /// Returns the connection if it can be used without a trial, and whether it was not used for a moment.
    fn usable(&self) -> Option<(MultiplexedConnection, bool)> {
        let state = self.state();
        let live = state.live.as_ref().filter(|_| !state.suspect)?;
        let rested = live.rested();
        let is_usable = !live.driver.is_finished() && rested <= TRUSTED_FOR;
        is_usable.then(|| (live.connection.clone(), rested > MOMENT))
    }

    /// Returns the connection if it is open, as far as is known.
    fn open(&self) -> Option<MultiplexedConnection> {
        let state = self.state();
        let live = state
            .live
            .as_ref()
            .filter(|live| !live.driver.is_finished())?;
        Some(live.connection.clone())
    }

    /// Forgets the connection: the next request makes a new one.
    pub(crate) fn disconnect(&self) {
        *self.state() = State::default();
    }

    /// Sets the time of the last reply back, as if the process had been frozen.
    #[cfg(test)]
    pub(crate) fn freeze(&self, long: Duration) {
        if let Some(live) = &mut self.state().live {
            live.replied.1 -= long;
        }
    }

    fn has_replied(&self) {
        let mut state = self.state();
        state.suspect = false;
        if let Some(live) = &mut state.live {
            live.replied = (Instant::now(), SystemTime::now());
        }
    }

    fn link(&self, connection: MultiplexedConnection) -> Link<'_> {
        Link {
            server: self,
            connection,
        }
    }

    /// Returns the state. A panic cannot leave it half written, so a poisoned lock is still good.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection that can be used for one command.
pub(crate) struct Link<'a> {
    server: &'a Server,
    connection: MultiplexedConnection,
}

impl Link<'_> {
    /// Sends one command.
    ///
    /// # Errors
    ///
    /// The error of the server, or of the connection.
    pub(crate) async fn send(mut self, command: &Cmd) -> RedisResult<Value> {
        let noted = Noted::new(self.server);
        let reply = noted.end(self.connection.send_packed_command(command).await);
        reply.and_then(Value::extract_error)
    }

    /// Sends commands together, and returns the reply to each.
    ///
    /// # Errors
    ///
    /// The error of the connection. That of the server to one command is a value.
    pub(crate) async fn send_all(mut self, commands: &Pipeline) -> RedisResult<Vec<Value>> {
        let noted = Noted::new(self.server);
        noted.end(
            self.connection
                .send_packed_commands(commands, 0, commands.len())
                .await,
        )
    }
}

/// Makes the connection suspect, unless a reply came: the send was given up, or failed. It may have been over an earlier connection.
struct Noted<'a>(Option<&'a Server>);

impl<'a> Noted<'a> {
    fn new(server: &'a Server) -> Self {
        Self(Some(server))
    }

    /// Notes the end of a send. An error of the server is a value, so this is one of the connection.
    fn end<T>(mut self, sent: RedisResult<T>) -> RedisResult<T> {
        if let (Ok(_), Some(server)) = (&sent, self.0) {
            server.has_replied();
            self.0 = None;
        }
        sent
    }
}

impl Drop for Noted<'_> {
    fn drop(&mut self) {
        if let Some(server) = self.0 {
            server.state().suspect = true;
        }
    }
}

impl Connector {
    /// Connects, logs in, and waits for a reply.
    async fn connect(
        &self,
        address: &Address,
    ) -> Result<(MultiplexedConnection, JoinHandle<()>), Failure> {
        let Address { host, port } = address;
        let stream = TcpStream::connect((host.as_str(), *port)).await;
        let stream = stream.map_err(|error| {
            let text = format!("no connection to {address} ({error}): check its address, that it runs, the network and the security groups");
            Failure::unsent(StoreError::new(StoreErrorKind::Unreachable, text).with_source(error))
        })?;
        // A request is one write, which must not wait for more.
        let _ = stream.set_nodelay(true);
        let Some(tls) = &self.tls else {
            return self.log_in(stream, address).await;
        };
        let name = ServerName::try_from(host.clone()).map_err(|error| {
            let text = format!("{address} has no name that a certificate can have: check the URL");
            Failure::unsent(StoreError::new(StoreErrorKind::Certificate, text).with_source(error))
        })?;
        let stream = tls.connect(name, stream).await;
        let stream = stream.map_err(|error| Failure::unsent(tls_failed(error, address)))?;
        self.log_in(stream, address).await
    }

    async fn log_in(
        &self,
        stream: impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
        address: &Address,
    ) -> Result<(MultiplexedConnection, JoinHandle<()>), Failure> {
        let closed = |error| Failure::unsent(closed(&error, address));
        let login = &self.target.login;
        let mut hello = redis::pipe();
        if let Some(password) = login.password() {
            let user = login.username();
            hello.cmd("AUTH").arg(user).arg(password);
        }
        if login.db() != 0 {
            hello.cmd("SELECT").arg(login.db());
        }
        // For a server that hangs, its kernel accepts connections too.
        hello.cmd("PING");
        // The engine ends a request, by the time that its call has. The login is ours: `redis` does not say why it was refused.
        let config = AsyncConnectionConfig::new().set_response_timeout(None);
        let no_login = RedisConnectionInfo::default().set_skip_set_lib_name();
        let made = MultiplexedConnection::new_with_config(&no_login, stream, config).await;
        let (mut connection, driver) = made.map_err(closed)?;
        // No task holds the connection before the replies, so that none stays.
        let mut driver = Box::pin(driver);
        let replied = {
            let mut replied = pin!(connection.send_packed_commands(&hello, 0, hello.len()));
            poll_fn(|context| {
                let _ = driver.as_mut().poll(context);
                replied.as_mut().poll(context)
            })
            .await
        };
        let replies = replied.map_err(closed)?.into_iter();
        for (reply, command) in replies.zip(hello.cmd_iter()) {
            if let Err(error) = reply.extract_error() {
                refused(Failure::of(error, address), command, address)?;
            }
        }
        Ok((connection, tokio::spawn(driver)))
    }
}

/// Returns the error of a TLS handshake: of a certificate, if its error is one of TLS.
fn tls_failed(error: std::io::Error, address: &Address) -> StoreError {
    let is_tls = error
        .get_ref()
        .is_some_and(|inner| inner.is::<rustls::Error>());
    let (kind, advice) = if is_tls {
        (
            StoreErrorKind::Certificate,
            "check that it serves TLS (`rediss://`), and that its certificate authority is trusted (SSL_CERT_FILE)",
        )
    } else {
        (
            StoreErrorKind::Unreachable,
            "check that it serves TLS (`rediss://`)",
        )
    };
    StoreError::new(
        kind,
        format!("no TLS connection to {address} ({error}): {advice}"),
    )
    .with_source(error)
}

/// Returns the failure of a connection over which the server has refused this command, unless it may perform others.
fn refused(failure: Failure, command: &Cmd, address: &Address) -> Result<(), Failure> {
    let is = |name: &[u8]| command.args_iter().next() == Some(redis::Arg::Simple(name));
    let failed = |kind, text| Err(Failure::unsent(StoreError::new(kind, text)));
    match failure.next {
        // For every command: it is full, or loads its data.
        Next::Pause => {}
        _ if is(b"AUTH") => {
            let text = format!(
                "{address} refused the login: check IDEMPOTENCY_VALKEY_USER and IDEMPOTENCY_VALKEY_PASSWORD, or those of the URL"
            );
            return failed(StoreErrorKind::Credentials, text);
        }
        _ if is(b"SELECT") && failure.maybe_applied => {
            let text = format!(
                "{address} refused the connection: check the database number of the URL, which is 0 in a cluster"
            );
            return failed(StoreErrorKind::Rejected, text);
        }
        // A server that cannot write to its disk says so, and reads.
        _ if is(b"PING") && !failure.maybe_applied => return Ok(()),
        _ => {}
    }
    Err(Failure {
        maybe_applied: false,
        ..failure
    })
}

/// Returns the error of a connection that ended before a reply.
fn closed(error: &RedisError, address: &Address) -> StoreError {
    let text = format!(
        "{address} closed the connection ({error}): check that it is a Valkey or Redis server, whether it needs TLS (`rediss://`), and its `maxclients`"
    );
    StoreError::new(StoreErrorKind::Unreachable, text)
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
