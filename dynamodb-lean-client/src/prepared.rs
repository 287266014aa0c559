//! What the SDK prepares for a client: HTTP client, credentials, endpoint rules, timeouts and retries.
//!
//! The SDK resolves its own configuration when it begins a call. An interceptor takes the parts of such a call and stops it
//! before anything is sent. So no rule of configuration is written a second time here: each setting of the environment, of
//! profiles and of the program counts as it does for the SDK's client.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::endpoint::Params;
use aws_sdk_dynamodb::config::interceptors::BeforeSerializationInterceptorContextRef;
use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::config::timeout::TimeoutConfig;
use aws_sdk_dynamodb::config::{
    ConfigBag, HttpClient as _, Intercept, Layer, Region, ResolveCachedIdentity as _,
    RuntimeComponents, SharedAsyncSleep,
};
use aws_sdk_dynamodb::error::{BoxError, SdkError};
use aws_sdk_dynamodb::operation::get_item::GetItemError;
use aws_smithy_runtime_api::client::auth::{AuthScheme as _, AuthSchemeId};
use aws_smithy_runtime_api::client::endpoint::{EndpointResolverParams, ResolveEndpoint as _};
use aws_smithy_runtime_api::client::http::{HttpConnectorSettings, SharedHttpConnector};
use aws_smithy_runtime_api::client::identity::SharedIdentityResolver;

use crate::clock::Skew;
use crate::route::Route;
use crate::sign::credentials;

/// The way in which requests to DynamoDB are signed.
const SIGV4: AuthSchemeId = AuthSchemeId::new("sigv4");

/// The parts of a client that send requests to one table.
pub(crate) struct PreparedClient {
    components: RuntimeComponents,
    /// The configuration that the SDK's cache of credentials needs.
    config: ConfigBag,
    /// What the endpoint depends on, apart from the credentials.
    endpoint: Params,
    region: String,
    pub(crate) timeouts: TimeoutConfig,
    pub(crate) retries: RetryConfig,
    pub(crate) connector: SharedHttpConnector,
    /// `None` if the client has no credentials.
    resolver: Option<SharedIdentityResolver>,
    /// The value of the header `user-agent`.
    user_agent: String,
    /// `None` if the client must not correct its clock.
    pub(crate) skew: Option<Skew>,
    /// The route of the last send.
    route: Mutex<Option<Arc<Route>>>,
}

impl PreparedClient {
    /// Lets the SDK prepare a client for a table.
    ///
    /// # Errors
    ///
    /// The error of the SDK, for example if the client has no HTTP client or no credentials.
    pub(crate) async fn of(
        client: &Client,
        table: &str,
        user_agent: &str,
    ) -> Result<Self, SdkError<GetItemError>> {
        let taken = Arc::new(Mutex::new(None));
        let interceptor = PartsInterceptor {
            user_agent: user_agent.to_owned(),
            corrects_clock: client.config().disable_clock_skew_correction() != Some(true),
            taken: Arc::clone(&taken),
        };
        let call = client.get_item().table_name(table).customize();
        let stopped = call.interceptor(interceptor).send().await;
        let taken = taken.lock().unwrap_or_else(PoisonError::into_inner).take();
        match (taken, stopped) {
            (Some(prepared), _) => Ok(prepared),
            (None, Err(error)) => Err(error),
            (None, Ok(_)) => Err(SdkError::construction_failure("the call was not stopped")),
        }
    }

    /// Returns the timer of the client. `None` if it has none: then there are neither timeouts nor pauses.
    pub(crate) fn sleep(&self) -> Option<SharedAsyncSleep> {
        self.components.sleep_impl()
    }

    /// Returns the current time.
    pub(crate) fn now(&self) -> std::time::SystemTime {
        self.components.time_source().unwrap_or_default().now()
    }

    /// Returns the credentials to sign with and the endpoint to send to.
    ///
    /// The SDK's cache keeps the credentials, and loads them again before they expire, once for all requests that wait. As long
    /// as it returns the same ones, the route of the last send is used again.
    pub(crate) async fn route(&self) -> Result<Arc<Route>, BoxError> {
        let resolver = self.resolver.clone();
        let resolver = resolver.ok_or("there is no identity resolver for AWS credentials")?;
        let cache = self.components.identity_cache();
        let identity = cache
            .resolve_cached_identity(resolver, &self.components, &self.config)
            .await?;
        let kept = || self.route.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(route) = kept().as_ref()
            // Cheap: both are the same allocation, unless the cache has loaded the credentials again.
            && credentials(&route.signer.identity)? == credentials(&identity)?
        {
            return Ok(Arc::clone(route));
        }
        let resolver = self.components.endpoint_resolver();
        let mut params = EndpointResolverParams::new(self.endpoint.clone());
        params.set_property(identity.clone());
        resolver.finalize_params(&mut params)?;
        let endpoint = resolver.resolve_endpoint(&params).await?;
        let route = Route::new(&identity, &endpoint, &self.region, &self.user_agent)?;
        Ok(Arc::clone(kept().insert(Arc::new(route))))
    }
}

/// Takes the parts of a call, and stops it.
struct PartsInterceptor {
    user_agent: String,
    corrects_clock: bool,
    taken: Arc<Mutex<Option<PreparedClient>>>,
}

impl PartsInterceptor {
    fn take(
        &self,
        components: &RuntimeComponents,
        config: &mut ConfigBag,
    ) -> Result<PreparedClient, BoxError> {
        let timeouts = config.load::<TimeoutConfig>().cloned();
        let timeouts = timeouts.unwrap_or_else(TimeoutConfig::disabled);
        let retries = config.load::<RetryConfig>().cloned();
        let retries = retries.unwrap_or_else(RetryConfig::disabled);
        let region = config.load::<Region>().ok_or("the client has no region")?;
        let endpoint = config.load::<EndpointResolverParams>();
        let endpoint = endpoint.and_then(EndpointResolverParams::get::<Params>);
        let endpoint = endpoint.ok_or("the client has no rules for its endpoint")?;

        let mut settings = HttpConnectorSettings::builder();
        settings.set_connect_timeout(timeouts.connect_timeout());
        settings.set_read_timeout(timeouts.read_timeout());
        let client = components.http_client();
        let client = client.ok_or("the client has no HTTP client")?;
        let connector = client.http_connector(&settings.build(), components);
        let scheme = components.auth_scheme(SIGV4);
        let resolver = scheme.and_then(|scheme| scheme.identity_resolver(components));

        let mut kept = Layer::new("lean client");
        kept.store_put(timeouts.clone());
        kept.store_put(retries.clone());
        Ok(PreparedClient {
            components: components.clone(),
            config: ConfigBag::of_layers([kept]),
            endpoint: endpoint.clone(),
            region: region.to_string(),
            timeouts,
            retries,
            connector,
            resolver,
            user_agent: self.user_agent.clone(),
            skew: self.corrects_clock.then(Skew::default),
            route: Mutex::new(None),
        })
    }
}

impl Intercept for PartsInterceptor {
    fn name(&self) -> &'static str {
        "dynamodb-lean-client"
    }

    fn read_before_serialization(
        &self,
        _: &BeforeSerializationInterceptorContextRef<'_>,
        components: &RuntimeComponents,
        config: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let prepared = self.take(components, config)?;
        *self.taken.lock().unwrap_or_else(PoisonError::into_inner) = Some(prepared);
        Err("the call ends before it is sent".into())
    }
}

impl fmt::Debug for PartsInterceptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PartsInterceptor").finish_non_exhaustive()
    }
}
