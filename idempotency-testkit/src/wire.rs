//! HTTP/1.1 on loopback, down to the point where a connection can be closed without an answer.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

pub(crate) type Request = hyper::Request<Incoming>;
pub(crate) type Response = hyper::Response<Full<Bytes>>;

/// Instead of a response: close the connection, say nothing.
#[derive(Debug)]
pub(crate) struct HangUp;

impl fmt::Display for HangUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("closed on purpose")
    }
}

impl std::error::Error for HangUp {}

/// Binds an unused port of the loopback interface. To be called in the context of the runtime that will serve it.
pub(crate) fn bind() -> io::Result<(TcpListener, SocketAddr)> {
    bind_to(0)
}

/// As [`bind`], with this port; 0 is an unused one.
pub(crate) fn bind_to(port: u16) -> io::Result<(TcpListener, SocketAddr)> {
    let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    Ok((TcpListener::from_std(listener)?, address))
}

/// Serves until the task that runs it ends.
pub(crate) async fn serve<H, F>(listener: TcpListener, handler: H)
where
    H: Fn(Request) -> F + Clone + Send + 'static,
    F: Future<Output = Result<Response, HangUp>> + Send + 'static,
{
    loop {
        // What `accept` reports concerns one connection, or passes (too many open files): others must get their turn.
        let Ok((stream, _)) = listener.accept().await else {
            tokio::task::yield_now().await;
            continue;
        };
        let _ = stream.set_nodelay(true);
        let handler = handler.clone();
        tokio::spawn(async move {
            let _ = http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service_fn(handler))
                .await;
        });
    }
}

/// A JSON answer.
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
