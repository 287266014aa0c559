use super::environment::{Environment, Inner};
use super::function::Function;
use super::invocation::{Invocation, Target};
use super::outcome::{InvokeError, StartError};
use super::process;
use super::state::{Event, State};
use crate::background::Background;
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A Lambda with one function, for as long as this value lives.
///
/// It runs on a thread of its own, so a paused tokio clock does not reach its deadlines. Dropping it kills every process
/// it started.
///
/// ```no_run
/// use idempotency_testkit::lambda::{Function, LocalLambda};
/// use std::process::Command;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let function = Function::new("payment", Command::new("target/debug/payment"));
/// let lambda = LocalLambda::start(function).await?;
/// let reply = lambda.invoke(r#"{"order_id": 1}"#).await?;
/// println!("{}", reply.payload);
/// # Ok(())
/// # }
/// ```
pub struct LocalLambda {
    function: Function,
    environments: Mutex<Vec<Environment>>,
    background: Background,
}

impl LocalLambda {
    /// Starts the service; no process yet.
    ///
    /// ```
    /// use idempotency_testkit::lambda::{Function, LocalLambda};
    /// # use std::process::Command;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let lambda = LocalLambda::start(Function::new("payment", Command::new("target/debug/payment"))).await?;
    /// assert!(lambda.all_environments().is_empty());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`StartError`] if no thread could be had.
    pub async fn start(function: Function) -> Result<Self, StartError> {
        let background =
            Background::start("local-lambda").map_err(|error| start_error(&function, error))?;
        Ok(Self {
            function,
            environments: Mutex::default(),
            background,
        })
    }

    /// Starts an execution environment: one more process of the function.
    ///
    /// It returns when the process runs; [`Environment::ready`] tells when it has asked for its first event.
    ///
    /// ```no_run
    /// # use idempotency_testkit::lambda::*;
    /// # async fn example(lambda: LocalLambda) -> Result<(), Box<dyn std::error::Error>> {
    /// let (one, two) = (lambda.environment().await?, lambda.environment().await?);
    /// assert_ne!(one.process_id(), two.process_id());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`StartError`] if there is no such program, or it cannot be run.
    pub async fn environment(&self) -> Result<Environment, StartError> {
        self.add(&mut self.environments())
    }

    /// Prepares an invocation in an environment with nothing to do, or in a new one.
    ///
    /// ```no_run
    /// # use idempotency_testkit::lambda::*;
    /// # async fn example(lambda: LocalLambda) -> Result<(), Box<dyn std::error::Error>> {
    /// let one = lambda.invoke(r#"{"order_id": 1}"#).start();
    /// let two = lambda.invoke(r#"{"order_id": 2}"#).start();
    /// one.await?;
    /// two.await?;
    /// assert_eq!(lambda.all_environments().len(), 2, "each takes one event at a time");
    /// # Ok(())
    /// # }
    /// ```
    pub fn invoke(&self, event: impl Into<String>) -> Invocation<'_> {
        Invocation::new(Target::Lambda(self), event.into(), self.function.timeout)
    }

    /// Every environment started so far, those whose process has ended included.
    ///
    /// ```no_run
    /// # use idempotency_testkit::lambda::*;
    /// # async fn example(lambda: LocalLambda) -> Result<(), Box<dyn std::error::Error>> {
    /// for environment in lambda.all_environments() {
    ///     environment.kill().await;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn all_environments(&self) -> Vec<Environment> {
        self.environments().clone()
    }

    pub(super) fn send(&self, mut event: Event) {
        let mut environments = self.environments();
        for environment in environments.iter() {
            let state = &environment.inner.state;
            match state.push_if_idle(event, self.function.concurrency) {
                None => return,
                Some(back) => event = back,
            }
        }
        match self.add(&mut environments) {
            Ok(environment) => environment.inner.state.push(event),
            Err(error) => {
                let _ = event.answer.send(Err(InvokeError::Start(error)));
            }
        }
    }

    fn add(&self, environments: &mut Vec<Environment>) -> Result<Environment, StartError> {
        let number = environments.len() + 1;
        let state = Arc::new(State::new());
        let process_id = process::start(self.background.handle(), &self.function, number, &state)
            .map_err(|error| start_error(&self.function, error))?;
        let environment = Environment {
            inner: Arc::new(Inner {
                state,
                number,
                process_id,
                timeout: self.function.timeout,
            }),
        };
        environments.push(environment.clone());
        Ok(environment)
    }

    fn environments(&self) -> MutexGuard<'_, Vec<Environment>> {
        self.environments
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for LocalLambda {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalLambda")
            .field("function", &self.function.name)
            .field("environments", &self.environments().len())
            .finish_non_exhaustive()
    }
}

fn start_error(function: &Function, source: io::Error) -> StartError {
    StartError {
        function: function.name.clone(),
        program: function.program.to_string_lossy().into_owned(),
        source: Arc::new(source),
    }
}
