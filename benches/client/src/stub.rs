//! An HTTP client that replies at once, without a connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_types::body::SdkBody;

/// Replies `{}` to every request, with the headers that DynamoDB sends.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stub {
    sent: Arc<AtomicU64>,
}

impl Stub {
    /// Returns the number of bytes of all requests: their headers and bodies.
    pub(crate) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }
}

impl HttpConnector for Stub {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let headers: usize = request
            .headers()
            .iter()
            .map(|(name, value)| name.len() + value.len() + 4)
            .sum();
        let body = request.body().bytes().map_or(0, <[u8]>::len);
        self.sent
            .fetch_add((headers + body) as u64, Ordering::Relaxed);
        let mut response = HttpResponse::new(200.try_into().unwrap(), SdkBody::from("{}"));
        let headers = response.headers_mut();
        headers.insert("server", "Server");
        headers.insert("date", "Sun, 22 Nov 2026 07:20:00 GMT");
        headers.insert("content-type", "application/x-amz-json-1.0");
        headers.insert("content-length", "2");
        headers.insert(
            "x-amzn-requestid",
            "4KBNVRGD25RG1KEO9UT4V3FQDJVV4KQNSO5AEMVJF66Q9ASUAAJG",
        );
        headers.insert("x-amz-crc32", "2745614147");
        HttpConnectorFuture::ready(Ok(response))
    }
}

impl HttpClient for Stub {
    fn http_connector(
        &self,
        _: &HttpConnectorSettings,
        _: &RuntimeComponents,
    ) -> SharedHttpConnector {
        SharedHttpConnector::new(self.clone())
    }
}
