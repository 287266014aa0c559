//! A proxy between a client and a server. It counts the requests that write or read a record, loses requests and replies, delays
//! them, and closes connections.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use super::resp::{Reply, parse};

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
}

/// A request that a client sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentRequest {
    /// The command, in capitals.
    pub command: String,
    /// What follows it.
    pub arguments: Vec<Vec<u8>>,
}

impl SentRequest {
    /// Returns true if the request is about the connection or the server, and about no record.
    fn is_set_up(&self) -> bool {
        let set_up = [
            "AUTH", "CLIENT", "CLUSTER", "COMMAND", "CONFIG", "HELLO", "INFO", "PING", "READONLY",
            "ROLE", "SCRIPT", "SELECT",
        ];
        set_up.contains(&self.command.as_str())
    }

    /// Returns true if one of the arguments contains this text.
    pub fn says(&self, text: &str) -> bool {
        let mut arguments = self.arguments.iter();
        arguments.any(|it| String::from_utf8_lossy(it).contains(text))
    }
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
    requests: Mutex<Vec<SentRequest>>,
    choose: Mutex<Option<Choose>>,
    /// The number of times that all connections were closed.
    cuts: watch::Sender<u64>,
    /// The number of late requests that the server has performed.
    late: watch::Sender<u64>,
}

impl Proxy {
    /// Starts a proxy before this server.
    ///
    /// # Errors
    ///
    /// If there is no unused port.
    pub async fn start(server: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            server,
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

    /// Returns the URL for clients.
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

/// Passes the bytes between a replica and its primary on, and can keep them back.
pub struct Tunnel {
    port: u16,
    /// True while bytes pass. They are kept back for ever after.
    passes: watch::Sender<bool>,
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
        tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                let (mut passing, mut closing) = (passing.clone(), closing.clone());
                tokio::spawn(async move {
                    let mut server = TcpStream::connect(server).await?;
                    let held = async {
                        let _ = passing.wait_for(|passes| !passes).await;
                    };
                    tokio::select! {
                        copied = tokio::io::copy_bidirectional(&mut client, &mut server) => return copied.map(drop),
                        () = held => {}
                    }
                    // Neither end learns more until now.
                    let _ = closing.wait_for(|closed| *closed).await;
                    Ok(())
                });
            }
        });
        Ok(Self {
            port,
            passes,
            closed,
        })
    }

    /// Returns the port for replicas.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Keeps all bytes back from now on.
    pub fn hold(&self) {
        self.passes.send_replace(false);
    }

    /// Closes the connections, without what was kept back.
    pub fn close(&self) {
        self.closed.send_replace(true);
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
    loop {
        let (request, bytes) = from_client.next().await?;
        match fault_of(&request, shared) {
            None => to_server.write_all(&bytes).await?,
            Some(WireFault::LoseRequest) => return Ok(()),
            Some(WireFault::CutRequest) => {
                return to_server.write_all(&bytes[..bytes.len() / 2]).await;
            }
            Some(WireFault::LoseReply) => {
                to_server.write_all(&bytes).await?;
                reply(&mut from_server, &mut to_client).await?;
                return Ok(());
            }
            Some(WireFault::CutReply) => {
                to_server.write_all(&bytes).await?;
                let bytes = reply(&mut from_server, &mut to_client).await?;
                return to_client.write_all(&bytes[..bytes.len() / 2]).await;
            }
            Some(WireFault::Delay(time)) => {
                tokio::time::sleep(time).await;
                to_server.write_all(&bytes).await?;
            }
            Some(WireFault::DelayReply(time)) => {
                to_server.write_all(&bytes).await?;
                let bytes = reply(&mut from_server, &mut to_client).await?;
                tokio::time::sleep(time).await;
                to_client.write_all(&bytes).await?;
                continue;
            }
            Some(WireFault::Late(time)) => {
                // In a task of its own: it goes on when the connections are closed.
                let late = shared.late.clone();
                tokio::spawn(async move {
                    tokio::time::sleep(time).await;
                    to_server.write_all(&bytes).await?;
                    let reply = from_server.next().await;
                    late.send_modify(|late| *late += 1);
                    reply
                });
                return Ok(());
            }
        }
        let bytes = reply(&mut from_server, &mut to_client).await?;
        to_client.write_all(&bytes).await?;
    }
}

/// Notes a request, and returns what happens to it.
fn fault_of(request: &Reply, shared: &Shared) -> Option<WireFault> {
    let mut words = request.elements().iter().map(|word| match word {
        Reply::Text(text) => text.clone(),
        _ => Vec::new(),
    });
    let command = words.next().unwrap_or_default();
    let request = SentRequest {
        command: String::from_utf8_lossy(&command).to_uppercase(),
        arguments: words.collect(),
    };
    if request.is_set_up() {
        return None;
    }
    let fault = lock(&shared.choose).as_mut().and_then(|it| it(&request));
    lock(&shared.requests).push(request);
    fault
}

/// Returns the bytes of the next reply. Messages before it go to the client.
async fn reply(from_server: &mut Reader, to_client: &mut OwnedWriteHalf) -> io::Result<Vec<u8>> {
    loop {
        let (reply, bytes) = from_server.next().await?;
        if !matches!(reply, Reply::Push(_)) {
            return Ok(bytes);
        }
        to_client.write_all(&bytes).await?;
    }
}

/// Reads one value after another.
struct Reader {
    stream: OwnedReadHalf,
    bytes: Vec<u8>,
}

impl Reader {
    fn new(stream: OwnedReadHalf) -> Self {
        let bytes = Vec::new();
        Self { stream, bytes }
    }

    async fn next(&mut self) -> io::Result<(Reply, Vec<u8>)> {
        loop {
            if let Some((value, length)) = parse(&self.bytes) {
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
