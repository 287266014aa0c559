//! Starts a process of the function and watches it until it ends.

use std::io;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;

use tokio::process::{Child, Command};
use tokio::runtime::Handle;

use super::api::Api;
use super::function::FunctionSpec;
use super::log::LogSource;
use super::state::State;
use crate::wire;

/// Starts the process, and a task on `runtime` that serves and watches it. Returns its process id.
pub(super) fn start(
    runtime: &Handle,
    function: &FunctionSpec,
    number: usize,
    state: &Arc<State>,
) -> io::Result<Option<u32>> {
    let _context = runtime.enter();
    let (listener, address) = wire::bind()?;
    let mut command = Command::from(function.command(&address.to_string(), number));
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    let mut child = command.spawn()?;
    let id = child.id();

    if let Some(stdout) = child.stdout.take() {
        #[cfg(unix)]
        state
            .log
            .tap(LogSource::Stdout, std::os::fd::AsFd::as_fd(&stdout))?;
        let state = Arc::clone(state);
        runtime.spawn(async move { state.log.follow(LogSource::Stdout, stdout).await });
    }
    if let Some(stderr) = child.stderr.take() {
        #[cfg(unix)]
        state
            .log
            .tap(LogSource::Stderr, std::os::fd::AsFd::as_fd(&stderr))?;
        let state = Arc::clone(state);
        runtime.spawn(async move { state.log.follow(LogSource::Stderr, stderr).await });
    }

    let api = Arc::new(Api {
        state: Arc::clone(state),
        function_arn: function.arn(),
    });
    let served = wire::serve(listener, move |request| Arc::clone(&api).handle(request));
    let watched = watch(child, Arc::clone(state));
    runtime.spawn(async move {
        tokio::select! {
            () = watched => {}
            () = served => {}
        }
    });
    Ok(id)
}

async fn watch(mut child: Child, state: Arc<State>) {
    // Its `drop` reports the end, also if the task is dropped with its runtime.
    let mut end = End {
        state,
        status: None,
    };
    end.status = loop {
        tokio::select! {
            status = child.wait() => break status.ok(),
            () = end.state.kill.notified() => {
                // Fails only if the process has ended, which `wait` then reports.
                let _ = child.start_kill();
            }
        }
    };
}

struct End {
    state: Arc<State>,
    status: Option<ExitStatus>,
}

impl Drop for End {
    fn drop(&mut self) {
        self.state.ended(self.status);
    }
}
