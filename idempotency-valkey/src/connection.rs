//! One server: connects to it, and notices a connection that is dead before a request is sent over it.

use std::future::poll_fn;
use std::io;
use std::io::ErrorKind::{TimedOut, UnexpectedEof};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::{Duration, Instant, SystemTime};

use idempotency_core::store::StoreErrorKind;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Pipeline, RedisConnectionInfo, RedisError, RedisResult, Value};
use rustls::CertificateError as Wrong;
use rustls::Error::InvalidCertificate;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::address::{Address, Target};
use crate::failure::{Failure, Next};
use crate::info::Info;

/// How long a connection may take, with its login and the first reply. A start waits for 2 s.
pub(crate) const CONNECT: Duration = Duration::from_millis(1_500);

/// How long a server may take to say that a connection is good, before a new one is made, or which slots it has, before another one is asked.
pub(crate) const PING: Duration = Duration::from_secs(1);

/// A connection that was not used for longer is tried first: Lambda may have frozen the process, or a device on the way may have forgotten it.
pub(crate) const TRUSTED_FOR: Duration = Duration::from_secs(10);

/// How long a reply may take whose caller sets no limit: at the start, and of a listing.
pub(crate) const LONGEST: Duration = Duration::from_secs(5);

/// After so long without a reply, the task of the connection is given two turns before a send, to see whether the server has closed it.
const MOMENT: Duration = Duration::from_millis(50);

/// How connections are made: the login, and TLS if there is any.
pub(crate) struct Connector {
    pub(crate) target: Target,
    pub(crate) tls: Option<TlsConnector>,
}

/// One server and the connection to it, which all requests share.
pub(crate) struct Server {
    pub(crate) address: Address,
    connector: Arc<Connector>,
    live: Mutex<Option<Live>>,
    /// Held while a connection is made, so that concurrent requests make one.
    connecting: tokio::sync::Mutex<()>,
}

/// A connection that was made.
#[derive(Clone)]
pub(crate) struct Live {
    pub(crate) connection: MultiplexedConnection,
    /// Its sender is dropped when the task of the connection ends, because it is closed.
    pub(crate) ended: watch::Receiver<()>,
    /// When the last reply came, on both clocks: one of them may stop while the process is frozen. `None` after a request without a reply.
    replied: Option<(Instant, SystemTime)>,
}

impl Live {
    /// Returns how long no reply came.
    fn rested(&self) -> Duration {
        let by_clocks =
            |(instant, time): (Instant, SystemTime)| longer(instant.elapsed(), time.elapsed().ok());
        self.replied.map_or(Duration::MAX, by_clocks)
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
            live: Mutex::default(),
            connecting: tokio::sync::Mutex::default(),
        }
    }

    /// Returns a connection that can be used, and makes one if there is none. `limit` is how long the caller waits for its request.
    ///
    /// # Errors
    ///
    /// If none can be made. Nothing was sent.
    pub(crate) async fn connect(&self, limit: Option<Duration>) -> Result<Live, Failure> {
        let mut live = self.open();
        let rested = live.as_ref().map(Live::rested).unwrap_or_default();
        if rested > MOMENT {
            // In the first one the runtime sees it, in the second one the task.
            for _ in 0..2 {
                tokio::task::yield_now().await;
            }
            live = self.open();
        }
        match live {
            Some(live) if rested <= TRUSTED_FOR => Ok(live),
            // Boxed, so that the future of every other request stays small.
            _ => Box::pin(self.reconnect(limit.unwrap_or(Duration::MAX))).await,
        }
    }

    async fn reconnect(&self, limit: Duration) -> Result<Live, Failure> {
        // So that a caller with little time has some left for another server.
        let wait = CONNECT.min(limit / 2);
        let Ok(_one) = timeout(wait, self.connecting.lock()).await else {
            return Err(self.too_slow(wait));
        };
        if let Some(mut live) = self.open() {
            if live.rested() <= TRUSTED_FOR {
                return Ok(live);
            }
            let ping = redis::cmd("PING");
            let pinged = live.connection.send_packed_command(&ping);
            if matches!(timeout(PING.min(limit / 3), pinged).await, Ok(Ok(_))) {
                self.note(true);
                return Ok(live);
            }
            // So the next request does not wait for it again.
            self.disconnect();
        }
        let password = self.password(wait).await?;
        let made = timeout(wait, self.make(password)).await;
        let live = made.unwrap_or_else(|_| Err(self.too_slow(wait)))?;
        *self.live() = Some(live.clone());
        Ok(live)
    }

    fn too_slow(&self, wait: Duration) -> Failure {
        let tls = self.connector.tls.as_ref();
        let text = format!(
            "no connection to {} within {wait:?}: check that it replies, its address, the network and the security groups{}",
            self.address,
            tls.map_or("", |_| ", and that it serves TLS")
        );
        Failure {
            next: Next::Elsewhere,
            ..Failure::unsent(StoreErrorKind::Unreachable, text)
        }
    }

    async fn password(&self, wait: Duration) -> Result<Option<String>, Failure> {
        let Some(password) = &self.connector.target.password else {
            return Ok(None);
        };
        let why = match timeout(wait, password.next()).await {
            Ok(Ok(password)) => return Ok(Some(password)),
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("it did not end within {wait:?}"),
        };
        let address = &self.address;
        let text = format!(
            "there is no password for {address}: correct the function that returns it ({why})"
        );
        Err(Failure::unsent(StoreErrorKind::Credentials, text))
    }

    /// Connects, logs in, and waits for a reply.
    async fn make(&self, password: Option<String>) -> Result<Live, Failure> {
        let Address { host, port } = &self.address;
        let stream = TcpStream::connect((host.as_str(), *port)).await;
        let stream = stream.map_err(|error| {
            let address = &self.address;
            let text = format!("no connection to {address} ({error}): check its address, that it runs, the network and the security groups");
            Failure::unsent(StoreErrorKind::Unreachable, text)
        })?;
        // A request is one write, which must not wait for more.
        let _ = stream.set_nodelay(true);
        let Some(tls) = &self.connector.tls else {
            return self.log_in(stream, password).await;
        };
        let stream = match ServerName::try_from(host.clone()) {
            Ok(name) => tls.connect(name, stream).await,
            Err(error) => Err(io::Error::other(error)),
        };
        let stream = stream.map_err(|error| tls_failed(&error, &self.address))?;
        self.log_in(stream, password).await
    }

    async fn log_in(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        password: Option<String>,
    ) -> Result<Live, Failure> {
        let (target, address) = (&self.connector.target, &self.address);
        let closed = |error: RedisError| {
            let text = format!(
                "{address} closed the connection ({error}): check that it is a Valkey or Redis server, whether it needs TLS (`rediss://`), and its `maxclients`"
            );
            Failure::unsent(StoreErrorKind::Unreachable, text)
        };
        let mut hello = redis::pipe();
        if let Some(password) = password {
            hello.cmd("AUTH").arg(&target.user).arg(password);
        }
        if target.database != 0 {
            hello.cmd("SELECT").arg(target.database);
        }
        // For a server that hangs, its kernel accepts connections too.
        hello.cmd("INFO");
        // The engine ends a request, by the time that its call has. The login is ours: `redis` does not say why it was refused.
        let config = AsyncConnectionConfig::new().set_response_timeout(None);
        let no_login = RedisConnectionInfo::default().set_skip_set_lib_name();
        let made = MultiplexedConnection::new_with_config(&no_login, stream, config).await;
        let (mut connection, driver) = made.map_err(closed)?;
        let (end, ended) = watch::channel(());
        tokio::spawn(async move {
            driver.await;
            drop(end);
        });
        let replies = connection.send_packed_commands(&hello, 0, hello.len());
        let mut info = Value::Nil;
        for reply in replies.await.map_err(closed)? {
            let reply = Failure::check(reply, address);
            info = reply.map_err(|failure| Failure {
                maybe_applied: false,
                ..failure
            })?;
        }
        Info::of(info).check(address)?;
        Ok(Live {
            connection,
            ended,
            replied: Some((Instant::now(), SystemTime::now())),
        })
    }

    /// Sends commands that change nothing together, and returns their replies.
    ///
    /// # Errors
    ///
    /// If they do not come in this time. An error of the server is a value.
    pub(crate) async fn ask(
        &self,
        commands: &Pipeline,
        within: Duration,
    ) -> Result<Vec<Value>, Failure> {
        let asked = async {
            let mut live = self.connect(None).await?;
            let sent = live
                .connection
                .send_packed_commands(commands, 0, commands.len());
            self.reply(live.ended, pin!(sent), Some(within)).await
        };
        let in_time = timeout(within, asked).await;
        in_time.unwrap_or_else(|_| Err(Failure::broken(&broken(TimedOut), &self.address)))
    }

    /// Waits for the reply to what is sent over a connection that `ended` tells of, and for at most [`LONGEST`] if the caller has no `limit`.
    ///
    /// # Errors
    ///
    /// If the connection broke. An error of the server is a value.
    pub(crate) async fn reply<T>(
        &self,
        mut ended: watch::Receiver<()>,
        mut replied: Pin<&mut impl Future<Output = RedisResult<T>>>,
        limit: Option<Duration>,
    ) -> Result<T, Failure> {
        let mut sent = Sent(self, false);
        let mut ended = pin!(ended.changed());
        // A request that is sent while the task ends gets no error of its own.
        let reply = poll_fn(|context| match replied.as_mut().poll(context) {
            Poll::Pending => {
                let ended = ended.as_mut().poll(context);
                ended.map(|_| Err(broken(UnexpectedEof)))
            }
            reply => reply,
        });
        let reply = match limit {
            // The engine ends the request.
            Some(_) => reply.await,
            None => {
                let in_time = timeout(LONGEST, reply).await;
                in_time.unwrap_or_else(|_| Err(broken(TimedOut)))
            }
        };
        sent.1 = reply.is_ok();
        reply.map_err(|error| Failure::broken(&error, &self.address))
    }

    /// Notes a reply, or its absence. It may be that of an earlier connection.
    fn note(&self, has_replied: bool) {
        if let Some(live) = &mut *self.live() {
            live.replied = has_replied.then(|| (Instant::now(), SystemTime::now()));
        }
    }

    /// Returns the connection if it is open, as far as is known.
    fn open(&self) -> Option<Live> {
        let live = self.live();
        live.as_ref()
            .filter(|it| it.ended.has_changed().is_ok())
            .cloned()
    }

    /// Forgets the connection: the next request makes a new one.
    pub(crate) fn disconnect(&self) {
        *self.live() = None;
    }

    /// Sets the time of the last reply back, as if the process had been frozen.
    #[cfg(test)]
    pub(crate) fn freeze(&self, long: Duration) {
        if let Some((_, time)) = self.live().as_mut().and_then(|live| live.replied.as_mut()) {
            *time -= long;
        }
    }

    /// Returns the connection. A panic cannot leave it half written, so a poisoned lock is still good.
    fn live(&self) -> MutexGuard<'_, Option<Live>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Notes at its end whether a reply came: a send can be given up.
struct Sent<'a>(&'a Server, bool);

impl Drop for Sent<'_> {
    fn drop(&mut self) {
        self.0.note(self.1);
    }
}

fn broken(kind: io::ErrorKind) -> RedisError {
    io::Error::from(kind).into()
}

/// Returns the failure of a TLS handshake.
fn tls_failed(error: &io::Error, address: &Address) -> Failure {
    let of_tls = error.get_ref().and_then(|it| it.downcast_ref());
    let advice = match of_tls {
        Some(InvalidCertificate(Wrong::UnknownIssuer)) => {
            "set SSL_CERT_FILE to a file with its certificate authority"
        }
        Some(InvalidCertificate(_)) => {
            "reach it by the name that its certificate is for (in the URL; in a cluster `cluster-preferred-endpoint-type hostname`), or correct that"
        }
        _ => "check that it serves TLS (`rediss://`)",
    };
    let kind = of_tls.map_or(StoreErrorKind::Unreachable, |_| StoreErrorKind::Certificate);
    Failure::unsent(
        kind,
        format!("no TLS connection to {address} ({error}): {advice}"),
    )
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
