//! A tokio runtime on its own thread.
//!
//! A server in a test must not run on the runtime of the test: a paused clock would stop it or advance its timers, a blocking
//! test would starve it, and a server shared by several tests would end with the first one.

use std::io;
use std::thread;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

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
