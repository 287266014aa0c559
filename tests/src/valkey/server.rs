//! A server in a process of its own, with a folder and a port of its own.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use idempotency_lambda::BoxError;

use super::resp::{Reply, parse, request};
use crate::Folder;

/// The variable with the path of a server's program.
const PROGRAM: &str = "VALKEY_SERVER";

/// The distance from a server's port to the one at which the other servers of its cluster find it.
pub(super) const BUS: u16 = 10_000;

/// How long a server may take to start, or to reach a state.
const PATIENCE: Duration = Duration::from_secs(30);

/// The pause between two looks at a server.
const LOOK: Duration = Duration::from_millis(10);

/// Returns the path of the server's program.
///
/// # Panics
///
/// If no variable names it.
pub fn program() -> OsString {
    let Some(program) = std::env::var_os(PROGRAM) else {
        panic!("{PROGRAM} names no server: run tests/scripts/valkey.sh")
    };
    program
}

/// Returns a port that is not used now, and above which the servers of a cluster find another one.
fn unused_port() -> Result<u16, BoxError> {
    let mut taken = Vec::new();
    loop {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let port = listener.local_addr()?.port();
        if let Some(bus) = port.checked_add(BUS)
            && TcpListener::bind((Ipv4Addr::LOCALHOST, bus)).is_ok()
        {
            return Ok(port);
        }
        taken.push(listener);
    }
}

/// Returns true if `holds` does within half a minute.
pub(super) fn reaches(mut holds: impl FnMut() -> bool) -> bool {
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        if holds() {
            return true;
        }
        std::thread::sleep(LOOK);
    }
    false
}

/// A server. It is killed, and its folder is removed, when this value is dropped.
pub struct Server {
    port: u16,
    folder: Folder,
    arguments: Vec<String>,
    process: Child,
    password: Option<String>,
}

impl Server {
    /// Starts a server that writes each change to its append-only file before it replies. `arguments` are further settings, such as
    /// `--maxmemory-policy`.
    ///
    /// # Errors
    ///
    /// If it does not reply after half a minute.
    pub fn start(arguments: &[&str]) -> Result<Self, BoxError> {
        let mut server = Self::spawn(arguments)?;
        server.ready()?;
        Ok(server)
    }

    /// As [`start`](Self::start), with TLS on a second port, which is returned. The folder has the certificate `server.pem` and its key.
    ///
    /// # Errors
    ///
    /// If it does not reply after half a minute.
    pub fn start_with_tls(certificates: &Path) -> Result<(Self, u16), BoxError> {
        let port = unused_port()?;
        let file = |name| certificates.join(name).display().to_string();
        let server = Self::start(&[
            "--tls-port",
            &port.to_string(),
            "--tls-cert-file",
            &file("server.pem"),
            "--tls-key-file",
            &file("server.key"),
            "--tls-auth-clients",
            "no",
        ])?;
        Ok((server, port))
    }

    /// As [`start`](Self::start), without the wait for its first reply.
    ///
    /// # Errors
    ///
    /// If there is no process.
    pub fn spawn(arguments: &[&str]) -> Result<Self, BoxError> {
        let (port, folder) = (unused_port()?, Folder::new("valkey")?);
        let arguments: Vec<_> = arguments.iter().map(ToString::to_string).collect();
        let password = arguments.iter().position(|it| it == "--requirepass");
        let password = password.and_then(|at| arguments.get(at + 1).cloned());
        Ok(Self {
            process: process(port, folder.path(), &arguments)?,
            port,
            folder,
            arguments,
            password,
        })
    }

    /// Returns the address.
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// Returns the port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the URL.
    pub fn url(&self) -> String {
        format!("redis://{}", self.address())
    }

    /// Waits until the server replies.
    ///
    /// # Errors
    ///
    /// If it does not after half a minute, or if it has ended.
    pub fn ready(&mut self) -> Result<(), BoxError> {
        let mut replies = false;
        reaches(|| {
            replies = self.ask(&["PING"]).text() == "PONG";
            replies || !matches!(self.process.try_wait(), Ok(None))
        });
        if replies {
            return Ok(());
        }
        let log = std::fs::read_to_string(self.folder.path().join("log"));
        let log = log.unwrap_or_default();
        Err(format!("no server replies on port {}:\n{log}", self.port).into())
    }

    /// Sends a request over a connection of its own. Of a failed connection the reply is an error.
    pub fn ask(&self, words: &[&str]) -> Reply {
        let words: Vec<_> = words.iter().map(|word| word.as_bytes()).collect();
        self.ask_bytes(&words)
    }

    /// As [`ask`](Self::ask), with words that are no text.
    pub fn ask_bytes(&self, words: &[&[u8]]) -> Reply {
        let exchange = || -> Result<Reply, BoxError> {
            let mut connection = TcpStream::connect(self.address())?;
            connection.set_read_timeout(Some(PATIENCE))?;
            if let Some(password) = &self.password {
                connection.write_all(&request(&[b"AUTH", password.as_bytes()]))?;
                received(&mut connection)?;
            }
            connection.write_all(&request(words))?;
            received(&mut connection)
        };
        exchange().unwrap_or_else(|error| Reply::Error(format!("no reply: {error}")))
    }

    /// Returns the value of a line of `INFO`.
    pub fn info(&self, name: &str) -> Option<String> {
        let info = self.ask(&["INFO", "everything"]).text();
        let mut lines = info.lines();
        lines.find_map(|line| Some(line.strip_prefix(name)?.strip_prefix(':')?.to_owned()))
    }

    /// Waits until a line of `INFO` has this value.
    ///
    /// # Errors
    ///
    /// If it has another one after half a minute.
    pub fn until(&self, name: &str, value: &str) -> Result<(), BoxError> {
        if reaches(|| self.info(name).as_deref() == Some(value)) {
            return Ok(());
        }
        let found = self.info(name);
        Err(format!("{name} is {found:?} and not {value} on port {}", self.port).into())
    }

    /// Kills the process at once (SIGKILL).
    ///
    /// # Errors
    ///
    /// If the process cannot be killed.
    pub fn kill(&mut self) -> Result<(), BoxError> {
        self.process.kill()?;
        self.process.wait()?;
        Ok(())
    }

    /// Starts a killed server again, on its port and with its data. `arguments` are added.
    ///
    /// # Errors
    ///
    /// If there is no process.
    pub fn spawn_again(&mut self, arguments: &[&str]) -> Result<(), BoxError> {
        let all = self.arguments.iter().map(String::as_str);
        let all: Vec<_> = all.chain(arguments.iter().copied()).collect();
        let all: Vec<_> = all.iter().map(ToString::to_string).collect();
        self.process = process(self.port, self.folder.path(), &all)?;
        Ok(())
    }

    /// Kills the process, starts it again, and waits until it replies.
    ///
    /// # Errors
    ///
    /// If it does not reply after half a minute.
    pub fn restart(&mut self) -> Result<(), BoxError> {
        self.kill()?;
        self.spawn_again(&[])?;
        self.ready()
    }

    /// Stops the process until the value is dropped: its connections stay, and get no reply.
    pub fn freeze(&self) -> Frozen {
        Frozen::new(self.process.id())
    }

    /// Returns the changes that the append-only file has, in their order: the words of each command.
    ///
    /// # Errors
    ///
    /// If it cannot be read.
    pub fn changes(&self) -> Result<Vec<Vec<Vec<u8>>>, BoxError> {
        let mut files = Vec::new();
        for folder in ["", "appendonlydir"] {
            let Ok(entries) = std::fs::read_dir(self.folder.path().join(folder)) else {
                continue;
            };
            for entry in entries {
                let path = entry?.path();
                let is_log = path.extension().is_some_and(|extension| extension == "aof");
                if path.is_file() && is_log {
                    files.push(path);
                }
            }
        }
        files.sort();
        let mut changes = Vec::new();
        for file in files {
            let bytes = std::fs::read(file)?;
            let mut at = 0;
            while let Some((change, length)) = parse(&bytes[at..]) {
                changes.push(change.elements().iter().map(Reply::bytes).collect());
                at += length;
            }
        }
        Ok(changes)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}

fn process(port: u16, folder: &Path, arguments: &[String]) -> Result<Child, BoxError> {
    let log = std::fs::File::create(folder.join("log"))?;
    let process = Command::new(program())
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1"])
        .arg("--dir")
        .arg(folder)
        // The script kills by it what a killed test leaves.
        .arg("--pidfile")
        .arg(folder.join("pid"))
        .args(["--appendonly", "yes", "--appendfsync", "always"])
        // No snapshot, and no second append-only file: `changes` reads one.
        .args(["--save", "", "--auto-aof-rewrite-percentage", "0"])
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .spawn()?;
    Ok(process)
}

fn received(connection: &mut TcpStream) -> Result<Reply, BoxError> {
    let (mut bytes, mut buffer) = (Vec::new(), [0; 16 * 1024]);
    loop {
        let length = connection.read(&mut buffer)?;
        if length == 0 {
            return Err("the connection was closed".into());
        }
        bytes.extend(&buffer[..length]);
        if let Some((reply, _)) = parse(&bytes) {
            return Ok(reply);
        }
    }
}

/// A process that is stopped until this value is dropped.
pub struct Frozen(u32);

impl Frozen {
    /// Stops the process.
    pub fn new(process_id: u32) -> Self {
        signal("-STOP", process_id);
        Self(process_id)
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        signal("-CONT", self.0);
    }
}

/// Sends a signal. It fails if the process has just ended; that does not matter.
fn signal(signal: &str, process_id: u32) {
    let _ = Command::new("kill")
        .args([signal, &process_id.to_string()])
        .stderr(Stdio::null())
        .status();
}
