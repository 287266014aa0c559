//! HTTP/1.1 servers on loopback that can close a connection without a response, and a tokio runtime on its own thread for them.
//!
//! A server in a test must not run on the runtime of the test: a paused clock would stop it or advance its timers, a blocking
//! test would starve it, and a server shared by several tests would end with the first one.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::thread;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

pub(crate) type Request = hyper::Request<Incoming>;
pub(crate) type Response = hyper::Response<Full<Bytes>>;

/// Returned instead of a response: closes the connection.
#[derive(Debug)]
pub(crate) struct HangUp;

impl fmt::Display for HangUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("closed on purpose")
    }
}

impl std::error::Error for HangUp {}

/// Binds an unused port of the loopback interface. Call it in the context of the runtime that will serve the port.
pub(crate) fn bind() -> io::Result<(TcpListener, SocketAddr)> {
    bind_to(0)
}

/// Binds this port of the loopback interface, as [`bind`] does; 0 is an unused port.
pub(crate) fn bind_to(port: u16) -> io::Result<(TcpListener, SocketAddr)> {
    let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    Ok((TcpListener::from_std(listener)?, address))
}

/// Serves connections until its task ends.
pub(crate) async fn serve<H, F>(listener: TcpListener, handler: H)
where
    H: Fn(Request) -> F + Clone + Send + 'static,
    F: Future<Output = Result<Response, HangUp>> + Send + 'static,
{
    loop {
        // An error concerns one connection or is temporary (too many open files), so serving continues.
        let Ok((stream, _)) = listener.accept().await else {
            tokio::task::yield_now().await;
            continue;
        };
        serve_connection(stream, handler.clone());
    }
}

/// Serves a connection in a task of its own.
pub(crate) fn serve_connection<H, F>(stream: TcpStream, handler: H)
where
    H: Fn(Request) -> F + Send + 'static,
    F: Future<Output = Result<Response, HangUp>> + Send + 'static,
{
    let _ = stream.set_nodelay(true);
    tokio::spawn(async move {
        let _ = http1::Builder::new()
            .serve_connection(TokioIo::new(stream), service_fn(handler))
            .await;
    });
}

/// Returns a JSON response.
pub(crate) fn json(status: u16, content_type: &'static str, body: String) -> Response {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() =
        hyper::StatusCode::from_u16(status).unwrap_or(hyper::StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(
        hyper::header::CONTENT_TYPE,
        hyper::header::HeaderValue::from_static(content_type),
    );
    response
}

/// A single-threaded runtime. It and all its tasks end when this value is dropped.
pub(crate) struct Background {
    handle: Handle,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Background {
    /// Starts the thread and its runtime.
    pub(crate) fn start(name: &str) -> io::Result<Self> {
        let (stop, stopped) = oneshot::channel::<()>();
        let (started, handle) = std::sync::mpsc::channel();
        // Built on its thread, so that it is always dropped there: dropping a runtime inside another runtime panics.
        let body = move || match Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => {
                let _ = started.send(Ok(runtime.handle().clone()));
                let _ = runtime.block_on(stopped);
            }
            Err(error) => {
                let _ = started.send(Err(error));
            }
        };
        let thread = thread::Builder::new().name(name.to_owned()).spawn(body)?;
        let handle = handle.recv().map_err(io::Error::other)??;
        Ok(Self {
            handle,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != thread::current().id()
        {
            let _ = thread.join();
        }
    }
}
