//! Servers: the one that the script has started, with a database for each test, and some that a test starts and kills.
#![allow(clippy::missing_panics_doc, clippy::unwrap_used)]

use std::fmt::Display;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use idempotency_postgres::sqlx::postgres::PgConnection;
use idempotency_postgres::sqlx::{self, AssertSqlSafe, Connection};
use idempotency_postgres::{MIGRATION, PostgresStore};

use crate::valkey::Frozen;

static NEXT: AtomicU32 = AtomicU32::new(0);

/// Returns what the script says in a variable.
pub fn told(variable: &str) -> String {
    let told = std::env::var(variable);
    told.unwrap_or_else(|_| panic!("{variable} is not set: run tests/scripts/postgres.sh"))
}

/// Returns the URL of a database, for a role.
pub fn url(address: impl Display, role: &str, database: &str) -> String {
    format!("postgres://{role}@{address}/{database}?sslmode=disable")
}

/// Returns the server that the script has started.
pub fn server() -> SocketAddr {
    told("POSTGRES_SERVER").parse().unwrap()
}

/// Creates a database that only this test uses, with the table.
pub async fn database() -> String {
    let database = empty_database(server()).await;
    execute(&database_url(&database), MIGRATION).await;
    database
}

/// Creates a database without a table.
pub async fn empty_database(address: SocketAddr) -> String {
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let database = format!("test_{}_{number}", std::process::id());
    let create = format!("CREATE DATABASE {database} TEMPLATE template0");
    execute(&url(address, "postgres", "postgres"), &create).await;
    database
}

/// Returns the URL of a database of the server that the script has started.
pub fn database_url(database: &str) -> String {
    url(server(), "postgres", database)
}

/// Executes statements over a connection of their own.
pub async fn execute(url: &str, statements: &str) {
    let mut connection = PgConnection::connect(url).await.unwrap();
    let statements = sqlx::raw_sql(AssertSqlSafe(statements.to_owned()));
    statements.execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
}

/// Returns a store on a database, with so many connections.
pub fn store(url: &str, connections: u32) -> PostgresStore {
    let builder = PostgresStore::builder().url(url).connections(connections);
    builder.unencrypted_events(true).build().unwrap()
}

/// A server that a test starts and kills.
pub struct Server {
    data: PathBuf,
    port: u16,
    process: Option<Child>,
}

impl Server {
    /// Starts a server without databases of tests.
    pub fn start(settings: &[&str]) -> Self {
        Self::start_with(settings, &[])
    }

    /// Starts a server with these files in its folder, which only its user may read.
    pub fn start_with(settings: &[&str], files: &[(&str, &str)]) -> Self {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let run = PathBuf::from(told("POSTGRES_RUN"));
        let data = run.join(format!("own-{}-{number}", std::process::id()));
        let copied = command("cp")
            .arg("-a")
            .arg(run.join("template"))
            .arg(&data)
            .status();
        assert!(copied.unwrap().success());
        let unused = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = unused.local_addr().unwrap().port();
        drop(unused);
        let mut server = Self {
            data,
            port,
            process: None,
        };
        for (name, content) in files {
            server.write(name, content);
        }
        server.restart(settings);
        server
    }

    /// Starts the server again, and waits until it accepts connections.
    pub fn restart(&mut self, settings: &[&str]) {
        self.spawn(settings);
        for _ in 0..1_000 {
            if self.is_ready().unwrap_or(false) {
                return;
            }
            let ended = self.process.as_mut().map(Child::try_wait);
            if !matches!(ended, Some(Ok(None))) {
                // A process of the server before it was left, such as one that was frozen.
                self.spawn(settings);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("the server does not start");
    }

    /// Writes a file into its folder, which only its user may read.
    fn write(&self, name: &str, content: &str) {
        let mut write = command("sh");
        write
            .args(["-c", "umask 077; cat > \"$0\""])
            .arg(self.data.join(name));
        let mut write = write.stdin(Stdio::piped()).spawn().unwrap();
        let mut input = write.stdin.take().unwrap();
        input.write_all(content.as_bytes()).unwrap();
        drop(input);
        assert!(write.wait().unwrap().success());
    }

    /// Kills the server, and starts it as a standby, which is read-only.
    pub fn restart_as_standby(&mut self) {
        self.kill();
        self.write("standby.signal", "");
        self.restart(&[]);
    }

    /// Kills a standby, and starts it as a primary.
    pub fn restart_as_primary(&mut self) {
        self.kill();
        std::fs::remove_file(self.data.join("standby.signal")).unwrap();
        self.restart(&[]);
    }

    /// Starts the server again, without a wait.
    pub fn spawn(&mut self, settings: &[&str]) {
        let program = PathBuf::from(told("POSTGRES_BIN")).join("postgres");
        let mut start = command(program.to_str().unwrap());
        start
            .arg("-D")
            .arg(&self.data)
            .arg("-p")
            .arg(self.port.to_string());
        settings.iter().for_each(|setting| {
            start.arg("-c").arg(setting);
        });
        let start = start.stderr(Stdio::null()).stdout(Stdio::null()).spawn();
        self.process = Some(start.unwrap());
    }

    /// Stops its processes until the value is dropped: its connections stay, and get no reply.
    pub fn freeze(&self) -> Vec<Frozen> {
        let Some(first) = self.process.as_ref().map(Child::id) else {
            return Vec::new();
        };
        let mut frozen = vec![Frozen::new(first)];
        // The first one starts a process for each connection.
        let others = std::fs::read_to_string(format!("/proc/{first}/task/{first}/children"));
        let others = others.unwrap_or_default();
        let others = others.split_whitespace().filter_map(|it| it.parse().ok());
        frozen.extend(others.map(Frozen::new));
        frozen
    }

    /// Returns true if the server accepts connections.
    fn is_ready(&self) -> std::io::Result<bool> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port))?;
        let start = b"\0\x03\0\0user\0postgres\0database\0postgres\0\0";
        let length = u32::try_from(start.len() + 4).unwrap_or_default();
        stream.write_all(&length.to_be_bytes())?;
        stream.write_all(start)?;
        let mut kind = [0];
        stream.read_exact(&mut kind)?;
        // A request for a password, or the news that none is needed.
        Ok(kind == *b"R")
    }

    /// Ends the server as a crash does.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            let killed = Command::new("kill")
                .arg("-QUIT")
                .arg(process.id().to_string())
                .status();
            assert!(killed.unwrap().success());
            process.wait().unwrap();
        }
    }

    /// Returns its address.
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
        // The folder is the script's to remove if this cannot.
        let _ = std::fs::remove_dir_all(&self.data);
    }
}

/// Returns a command of the user that runs servers.
fn command(program: &str) -> Command {
    let told = told("POSTGRES_AS");
    let mut words = told.split_whitespace().chain([program]);
    let mut command = Command::new(words.next().unwrap());
    command.args(words);
    command
}
