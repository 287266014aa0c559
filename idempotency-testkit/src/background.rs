//! A runtime of our own, on a thread of our own.
//!
//! A server in a test must not live in the test's runtime: a paused clock would stop or rush it, a blocking test would
//! starve it, and a server shared by several tests would die with the first of them.

use std::io;
use std::thread;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

/// A single-threaded runtime that ends, with all its tasks, when this is dropped.
pub(crate) struct Background {
    handle: Handle,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Background {
    pub(crate) fn start(name: &str) -> io::Result<Self> {
        let (stop, stopped) = oneshot::channel::<()>();
        let (started, handle) = std::sync::mpsc::channel();
        // The runtime is built on its thread, so that it is dropped there whatever happens: dropping one inside
        // another runtime panics.
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
