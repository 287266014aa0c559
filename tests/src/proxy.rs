//! A proxy between a client and a server of Valkey or PostgreSQL. It counts the requests that write or read a record, loses requests and
//! replies, delays them, and closes connections.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::{postgres, valkey};

/// What happens to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WireFault {
    /// The connection closes, and the server does not get the request.
    LoseRequest,
    /// The server gets the first half of the request, and the connection closes.
    CutRequest,
    /// The server applies the request, and the connection closes.
    LoseReply,
    /// The client gets the first half of the reply, and the connection closes.
    CutReply,
    /// The server gets the request after this time.
    Delay(Duration),
    /// The client gets the reply after this time.
    DelayReply(Duration),
    /// The connection closes, and the server gets the request after this time.
    Late(Duration),
    /// The server applies the request, the client gets these bytes as its reply, and the connection closes.
    Replace(&'static [u8]),
}

/// A request that a client sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SentRequest {
    /// The command of Valkey, in capitals. Of PostgreSQL the first word of a query, or the message: `PARSE`, `BIND`.
    pub command: String,
    /// What follows it.
    pub arguments: Vec<Vec<u8>>,
}

impl SentRequest {
    /// Returns true if one of the arguments contains this text.
    pub fn says(&self, text: &str) -> bool {
        let mut arguments = self.arguments.iter();
        arguments.any(|it| String::from_utf8_lossy(it).contains(text))
    }
}

/// Returns what the bytes of a connection begin with, and its length. `None` if its end is missing.
type First<T> = fn(&[u8]) -> Option<(T, usize)>;

/// How requests and replies are found in the bytes of a connection.
pub(crate) struct Frames {
    /// Returns a request. One that is about the connection or the server, and about no record, is `None`.
    pub(crate) request: First<Option<SentRequest>>,
    /// Returns true for a reply, and false for a message that replies to no request.
    pub(crate) reply: First<bool>,
}

type Choose = Box<dyn FnMut(&SentRequest) -> Option<WireFault> + Send>;

/// The proxy. It ends with the runtime that it was started on.
#[derive(Clone)]
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    server: SocketAddr,
    frames: &'static Frames,
    requests: Mutex<Vec<SentRequest>>,
    choose: Mutex<Option<Choose>>,
    /// The number of times that all connections were closed.
    cuts: watch::Sender<u64>,
    /// The number of late requests that the server has performed.
    late: watch::Sender<u64>,
}

impl Proxy {
    /// Starts a proxy before this server of Valkey.
    ///
    /// # Errors
    ///
    /// If there is no unused port.
    pub async fn start(server: SocketAddr) -> io::Result<Self> {
        Self::between(server, &valkey::FRAMES).await
    }

    /// As [`start`](Self::start), before a server of PostgreSQL.
    ///
    /// # Errors
    ///
    /// If there is no unused port.
    pub async fn before_postgres(server: SocketAddr) -> io::Result<Self> {
        Self::between(server, &postgres::FRAMES).await
    }

    async fn between(server: SocketAddr, frames: &'static Frames) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            server,
            frames,
            requests: Mutex::default(),
            choose: Mutex::default(),
            cuts: watch::Sender::new(0),
            late: watch::Sender::new(0),
        });
        let accepting = Arc::clone(&shared);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let shared = Arc::clone(&accepting);
                let mut cuts = shared.cuts.subscribe();
                tokio::spawn(async move {
                    // Either way both connections close.
                    tokio::select! {
                        _ = serve(client, &shared) => {}
                        _ = cuts.changed() => {}
                    }
                });
            }
        });
        Ok(Self { address, shared })
    }

    /// Returns its own address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the URL for clients of Valkey.
    pub fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    /// Lets this happen to the next request about a record.
    pub fn inject(&self, fault: WireFault) {
        self.inject_at(1, fault);
    }

    /// Lets this happen to the `number`th request about a record from now on. It replaces what was chosen before.
    pub fn inject_at(&self, number: usize, fault: WireFault) {
        let mut left = number;
        self.choose(move |_| {
            left = left.checked_sub(1)?;
            (left == 0).then_some(fault)
        });
    }

    /// Lets this happen to the next request with this command. It replaces what was chosen before.
    pub fn inject_into(&self, command: &'static str, fault: WireFault) {
        let mut fault = Some(fault);
        self.choose(move |request| fault.take_if(|_| request.command == command));
    }

    /// Chooses what happens to each request about a record. It replaces what was chosen before.
    pub fn choose(&self, choose: impl FnMut(&SentRequest) -> Option<WireFault> + Send + 'static) {
        *lock(&self.shared.choose) = Some(Box::new(choose));
    }

    /// Lets nothing happen from now on.
    pub fn calm(&self) {
        *lock(&self.shared.choose) = None;
    }

    /// Closes all connections.
    pub fn cut(&self) {
        self.shared.cuts.send_modify(|cuts| *cuts += 1);
    }

    /// Waits until the server has performed a late request.
    pub async fn late_request(&self) {
        let mut late = self.shared.late.subscribe();
        // The sender lives in `self`, so the wait cannot fail.
        let _ = late.wait_for(|late| *late > 0).await;
    }

    /// Returns the requests about records since the last call of this function.
    pub fn requests(&self) -> Vec<SentRequest> {
        std::mem::take(&mut lock(&self.shared.requests))
    }
}

async fn serve(client: TcpStream, shared: &Shared) -> io::Result<()> {
    let server = TcpStream::connect(shared.server).await?;
    for stream in [&client, &server] {
        stream.set_nodelay(true)?;
    }
    let (from_client, mut to_client) = client.into_split();
    let (from_server, mut to_server) = server.into_split();
    let (mut from_client, mut from_server) = (Reader::new(from_client), Reader::new(from_server));
    let Frames { request, reply } = *shared.frames;
    loop {
        let (request, bytes) = tokio::select! {
            request = from_client.next(request) => request?,
            // What no request has asked for, such as the end of the session.
            message = from_server.next(reply) => {
                pass(message, &mut from_server, &mut to_client).await?;
                continue;
            }
        };
        let fault = request.and_then(|request| fault_of(request, shared));
        match fault {
            None
            | Some(
                WireFault::LoseReply
                | WireFault::CutReply
                | WireFault::DelayReply(_)
                | WireFault::Replace(_),
            ) => to_server.write_all(&bytes).await?,
            Some(WireFault::LoseRequest) => return Ok(()),
            Some(WireFault::CutRequest) => {
                return to_server.write_all(&bytes[..bytes.len() / 2]).await;
            }
            Some(WireFault::Delay(time)) => {
                tokio::time::sleep(time).await;
                to_server.write_all(&bytes).await?;
            }
            Some(WireFault::Late(time)) => {
                // In a task of its own: it goes on when the connections are closed.
                let late = shared.late.clone();
                tokio::spawn(async move {
                    tokio::time::sleep(time).await;
                    to_server.write_all(&bytes).await?;
                    let reply = from_server.next(reply).await;
                    late.send_modify(|late| *late += 1);
                    reply
                });
                return Ok(());
            }
        }
        let bytes = loop {
            match from_server.next(reply).await {
                Ok((true, bytes)) => break bytes,
                // A message before it, or what is left of it.
                message => pass(message, &mut from_server, &mut to_client).await?,
            }
        };
        match fault {
            Some(WireFault::LoseReply) => return Ok(()),
            Some(WireFault::CutReply) => {
                return to_client.write_all(&bytes[..bytes.len() / 2]).await;
            }
            Some(WireFault::Replace(bytes)) => return to_client.write_all(bytes).await,
            Some(WireFault::DelayReply(time)) => tokio::time::sleep(time).await,
            _ => {}
        }
        to_client.write_all(&bytes).await?;
    }
}

/// Notes a request, and returns what happens to it.
fn fault_of(request: SentRequest, shared: &Shared) -> Option<WireFault> {
    let fault = lock(&shared.choose).as_mut().and_then(|it| it(&request));
    lock(&shared.requests).push(request);
    fault
}

/// Passes a message of the server on. At the end of its connection this is what is left of one.
async fn pass(
    message: io::Result<(bool, Vec<u8>)>,
    from_server: &mut Reader,
    to_client: &mut OwnedWriteHalf,
) -> io::Result<()> {
    match message {
        Ok((_, bytes)) => to_client.write_all(&bytes).await,
        Err(error) => {
            to_client.write_all(&from_server.bytes).await?;
            Err(error)
        }
    }
}

/// Reads one request or reply after another.
struct Reader {
    stream: OwnedReadHalf,
    bytes: Vec<u8>,
}

impl Reader {
    fn new(stream: OwnedReadHalf) -> Self {
        let bytes = Vec::new();
        Self { stream, bytes }
    }

    /// Returns the next one with its bytes. If it is dropped before, nothing is lost.
    async fn next<T>(&mut self, first: First<T>) -> io::Result<(T, Vec<u8>)> {
        loop {
            if let Some((value, length)) = first(&self.bytes) {
                let rest = self.bytes.split_off(length);
                return Ok((value, std::mem::replace(&mut self.bytes, rest)));
            }
            if self.stream.read_buf(&mut self.bytes).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
