//! What the function under test gets of its world.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::{BehaviorVersion, Credentials, Region, SharedCredentialsProvider};
use aws_types::SdkConfig;
use idempotency_core::time::EpochMillis;
use idempotency_lambda::{Backend, ConfigurationError, Context, DynamoDbStore};

use super::RECORDS;
use super::connector::Transport;
use super::process::{Process, ProcessClock, TIMEOUT};
use super::provider::ProviderRequest;
use crate::SeededRandom;

/// The world of one delivery: clients of its database, its provider, its fakes, its time.
///
/// Take the clients of the function from here: their requests are the points where faults happen. What a [`fake`](Self::fake)
/// holds outlives the process, as a real service does. Everything else that the function makes ends with its process.
///
/// # Examples
///
/// ```
/// use idempotency_testkit::retry_safety::{Mutex, World};
///
/// /// The mails that were sent.
/// #[derive(Default)]
/// struct Outbox(Mutex<Vec<String>>);
///
/// async fn send(world: &World, text: &str) {
///     let outbox = world.fake::<Outbox>();
///     outbox.0.lock().unwrap().push(text.to_owned());
/// }
/// ```
#[derive(Clone)]
pub struct World {
    process: Arc<Process>,
}

impl World {
    pub(super) fn new(process: &Arc<Process>) -> Self {
        Self {
            process: Arc::clone(process),
        }
    }

    /// Returns the configuration of a client of the scenario's DynamoDB, for the SDK or for a store.
    ///
    /// A client works in the threads of its process: in the handler and in the tasks that it spawns.
    #[must_use]
    pub fn sdk_config(&self) -> SdkConfig {
        // The SDK keeps one quota of retries for each region. Each client here gets its own, as in a new process.
        static CLIENTS: AtomicU32 = AtomicU32::new(1);
        let number = CLIENTS.fetch_add(1, Ordering::Relaxed);
        let credentials = Credentials::new("test", "test", None, None, "retry_safety");
        SdkConfig::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::new(format!("eu-central-{number}")))
            .credentials_provider(SharedCredentialsProvider::new(credentials))
            .endpoint_url("http://dynamodb.invalid")
            .http_client(Transport)
            .build()
    }

    /// Returns a client of the scenario's DynamoDB, for tables of the function's own.
    ///
    /// [`RetrySafety::table`](super::RetrySafety::table) creates them. What the items hold is compared after each scenario.
    #[must_use]
    pub fn dynamodb(&self) -> Client {
        Client::new(&self.sdk_config())
    }

    /// Returns the address of the provider, such as `http://127.0.0.1:1234`.
    ///
    /// # Panics
    ///
    /// If the check has no provider: set it with [`RetrySafety::provider`](super::RetrySafety::provider).
    #[must_use]
    pub fn url(&self) -> String {
        match self.process.shared.listener() {
            Some(listener) => format!("http://{}", listener.address),
            None => panic!("the check has no provider: set it with `.provider(..)`"),
        }
    }

    /// Returns the requests that changed something at the provider, in the order in which they were applied.
    #[must_use]
    pub fn provider_requests(&self) -> Vec<ProviderRequest> {
        let http = self.process.shared.http.as_ref();
        http.map(|http| http.applied()).unwrap_or_default()
    }

    /// Returns the fake of this type, which all deliveries of one scenario share. It starts as its default.
    ///
    /// Let it hold what it knows in a [`Mutex`](super::Mutex) of this module, so that faults happen at each use of it.
    #[must_use]
    pub fn fake<T: Default + Send + Sync + 'static>(&self) -> Arc<T> {
        self.process.shared.fake()
    }

    /// Returns the number of this delivery, from 1.
    #[must_use]
    pub fn delivery(&self) -> u32 {
        self.process.delivery
    }

    /// Returns the context of the invocation: a request id that each delivery has for itself, and a deadline.
    ///
    /// A handler that gets an empty context, such as `Context::default()`, has this deadline too.
    #[must_use]
    pub fn context(&self) -> Context {
        let mut context = Context::default();
        let (salt, delivery) = (self.process.shared.salt, self.process.delivery);
        context.request_id = format!("{salt}-{delivery}");
        let deadline = self.process.shared.now().plus(TIMEOUT).get();
        context.deadline = u64::try_from(deadline).unwrap_or_default();
        context
    }

    /// Returns the time of this world: it moves with the timers of the function.
    #[must_use]
    pub fn now(&self) -> EpochMillis {
        self.process.now()
    }

    /// Returns the backend of this process, over the table of the framework.
    pub(super) fn backend(&self) -> Result<Backend, ConfigurationError> {
        let store = DynamoDbStore::builder().sdk_config(&self.sdk_config());
        let store = store.table(RECORDS).build()?;
        // Each process has owner tokens of its own.
        let random = SeededRandom::new(self.process.delivery.into());
        let clock = ProcessClock(Arc::clone(&self.process));
        Ok(Backend::new(
            Arc::new(store),
            Arc::new(clock),
            Arc::new(random),
        ))
    }
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("World")
            .field("delivery", &self.process.delivery)
            .finish_non_exhaustive()
    }
}
