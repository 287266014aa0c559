//! What is stored of a response: which statuses, which headers, how much of a body.

use std::sync::Arc;

use http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS,
    ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_DISPOSITION, CONTENT_ENCODING, CONTENT_LANGUAGE,
    CONTENT_LENGTH, CONTENT_LOCATION, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, LAST_MODIFIED,
    LINK, LOCATION, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, REFERRER_POLICY, SET_COOKIE,
    STRICT_TRANSPORT_SECURITY, TE, TRAILER, TRANSFER_ENCODING, UPGRADE, VARY,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use http::{HeaderMap, HeaderName, StatusCode};
use idempotency_core::config::ConfigurationError;

/// What to do with a response that cannot be stored: a stream, a body above the limit, or one with trailers.
///
/// It is known only when the handler has run. In every case the outcome event is a warning that says why.
///
/// # Examples
///
/// ```
/// use idempotency_http::{HttpOperation, Unstorable};
///
/// // A report is created again if the client asks again: the stream is passed through without protection.
/// let reports = HttpOperation::builder("shop::reports")
///     .caller_header("x-user-id")
///     .on_unstorable(Unstorable::Release)
///     .build()?;
/// # Ok::<(), idempotency_http::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Unstorable {
    /// The call's own client gets the whole response. Duplicates get an error, and the handler does not run again.
    #[default]
    Complete,
    /// The call's own client gets the whole response. The claim is released before the body is sent, so a duplicate runs the
    /// handler again: the request is not protected. If the handler staged writes, the key is completed, as under
    /// [`Complete`](Self::Complete): the client gets the response, so the writes are applied.
    Release,
    /// Every client gets an error, the call's own too, and the handler does not run again. No client sees a response that a
    /// duplicate could not get.
    Refuse,
}

/// The headers that are stored unless the list is extended. They describe the body, the result and what a browser may do with them, not
/// the connection, the client's session or this one exchange.
const STORED: [HeaderName; 26] = [
    ACCESS_CONTROL_ALLOW_CREDENTIALS,
    ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS,
    ALLOW,
    CACHE_CONTROL,
    CONTENT_DISPOSITION,
    CONTENT_ENCODING,
    CONTENT_LANGUAGE,
    CONTENT_LOCATION,
    CONTENT_SECURITY_POLICY,
    CONTENT_TYPE,
    ETAG,
    LAST_MODIFIED,
    LINK,
    LOCATION,
    REFERRER_POLICY,
    STRICT_TRANSPORT_SECURITY,
    VARY,
    X_CONTENT_TYPE_OPTIONS,
    X_FRAME_OPTIONS,
    HeaderName::from_static("content-digest"),
    HeaderName::from_static("cross-origin-embedder-policy"),
    HeaderName::from_static("cross-origin-opener-policy"),
    HeaderName::from_static("cross-origin-resource-policy"),
    HeaderName::from_static("permissions-policy"),
    // Says to `lambda_http` that it sends the body as text.
    HeaderName::from_static("x-lambda-http-content-encoding"),
];

type Statuses = dyn Fn(StatusCode) -> bool + Send + Sync;

/// The rules for responses.
#[derive(Clone)]
pub(crate) struct Rules {
    /// Beyond [`STORED`].
    pub(crate) more_headers: Vec<HeaderName>,
    /// Instead of [`is_stored_by_default`].
    pub(crate) statuses: Option<Arc<Statuses>>,
    pub(crate) on_unstorable: Unstorable,
    pub(crate) max_body: usize,
    /// True if a body of unknown length is collected too, up to the limit.
    pub(crate) collects_streams: bool,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            more_headers: Vec::new(),
            statuses: None,
            on_unstorable: Unstorable::default(),
            max_body: 1024 * 1024,
            collects_streams: false,
        }
    }
}

/// What a status says about the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The response is the result of the request.
    Store,
    /// The request was not processed.
    Release,
    /// The run failed, and may have had its effect. The failure is that of the handler, or of a layer inside.
    Failed,
}

impl Rules {
    /// Returns the first status that is the result of a request by default, and that these rules do not store.
    pub(crate) fn first_result_not_stored(&self) -> Option<u16> {
        let status = |code| StatusCode::from_u16(code).ok();
        let mut statuses = (200..500).filter_map(status);
        let is_left_out = |status: &StatusCode| {
            is_stored_by_default(*status) && self.verdict(*status) != Verdict::Store
        };
        statuses.find(is_left_out).map(|status| status.as_u16())
    }

    pub(crate) fn verdict(&self, status: StatusCode) -> Verdict {
        if status.is_server_error() {
            return Verdict::Failed;
        }
        let stored = match &self.statuses {
            Some(statuses) => statuses(status) && !status.is_informational(),
            None => is_stored_by_default(status),
        };
        match status {
            _ if stored => Verdict::Store,
            // The handler was dropped half-way: by a timeout, or because a client closed its connection.
            _ if [408, 499].contains(&status.as_u16()) => Verdict::Failed,
            _ => Verdict::Release,
        }
    }

    /// Returns what the status of a final response says: its handler decided that the steps of the key are undone.
    pub(crate) fn final_verdict(&self, status: StatusCode) -> Verdict {
        match self.verdict(status) {
            Verdict::Release if !status.is_informational() => Verdict::Store,
            verdict => verdict,
        }
    }

    /// Returns the headers that are stored.
    pub(crate) fn stored_headers(&self, headers: &HeaderMap) -> HeaderMap {
        let connection = headers.get_all(CONNECTION).iter();
        let connection: Vec<_> = connection
            .filter_map(|value| value.to_str().ok())
            .flat_map(|list| list.split(','))
            .map(str::trim)
            .collect();
        let mut stored = HeaderMap::new();
        for (name, value) in headers {
            let is_listed = STORED.contains(name) || self.more_headers.contains(name);
            let is_of_connection = connection
                .iter()
                .any(|named| named.eq_ignore_ascii_case(name.as_str()));
            if is_listed && !is_of_connection && !is_never_stored(name) {
                stored.append(name, value.clone());
            }
        }
        stored
    }
}

/// Returns true if a response of this status is the result of its request.
///
/// 301, 302 and 303 tell the client where the result is. 307 and 308 ask for the same request elsewhere. After 304 and a status of
/// [`NOT_A_RESULT`] a later request can get another response.
fn is_stored_by_default(status: StatusCode) -> bool {
    match status.as_u16() {
        code if NOT_A_RESULT.contains(&code) => false,
        200..=299 | 301..=303 | 400..=499 => true,
        _ => false,
    }
}

/// The 4xx that are not the result of a request. Nothing was done, as a router, an extractor or a layer inside says: about rights, a
/// state, a limit, or headers that the fingerprint does not have. 408 and 499 end a run that broke off.
const NOT_A_RESULT: [u16; 22] = [
    401, 403, 405, 406, 407, 408, 409, 411, 412, 413, 414, 415, 416, 417, 421, 423, 425, 426, 428,
    429, 431, 499,
];

/// Returns true if a header is never stored or replayed: it belongs to one client's session or to one connection.
pub(crate) fn is_never_stored(name: &HeaderName) -> bool {
    [
        CONNECTION,
        CONTENT_LENGTH,
        PROXY_AUTHENTICATE,
        PROXY_AUTHORIZATION,
        SET_COOKIE,
        TE,
        TRAILER,
        TRANSFER_ENCODING,
        UPGRADE,
    ]
    .contains(name)
        || ["keep-alive", "proxy-connection", "set-cookie2"].contains(&name.as_str())
}

/// Returns the name of a header that may be stored.
///
/// # Errors
///
/// If it is not a name, or the name of a header that is never stored.
pub(crate) fn storable_header(name: &str) -> Result<HeaderName, ConfigurationError> {
    let parsed = header_name("stored_headers", name)?;
    if is_never_stored(&parsed) {
        let remedy = if parsed.as_str().starts_with("set-cookie") {
            "leave it out: a cookie belongs to one client's session, and a replay must not set it again"
        } else {
            "leave it out: it belongs to one connection, and the server writes it for each response"
        };
        return Err(ConfigurationError::value("stored_headers", name, remedy));
    }
    Ok(parsed)
}

/// Parses the name of a header.
///
/// # Errors
///
/// If it is not a name.
pub(crate) fn header_name(setting: &str, name: &str) -> Result<HeaderName, ConfigurationError> {
    HeaderName::from_bytes(name.as_bytes()).map_err(|_| {
        ConfigurationError::value(
            setting,
            name,
            "write the name of a header, such as `x-user-id`",
        )
    })
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn each_status_is_stored_released_or_a_failure() {
        let rules = Rules::default();
        for code in 100..=599_u16 {
            let expected = match code {
                500..=599 | 408 | 499 => Verdict::Failed,
                400 | 402 | 404 | 410 | 418..=420 | 422 | 424 | 427 | 430 | 432..=498 => {
                    Verdict::Store
                }
                200..=299 | 301 | 302 | 303 => Verdict::Store,
                _ => Verdict::Release,
            };
            let status = StatusCode::from_u16(code).unwrap();
            assert_eq!(rules.verdict(status), expected, "{code}");
        }
    }

    #[test]
    fn the_guide_lists_what_is_stored() {
        let guide = include_str!("../../docs/guide/http.md");
        let codes = NOT_A_RESULT.map(|code| code.to_string());
        let [first @ .., last] = &codes;
        let statuses = format!(
            "| status | 2xx, 301 to 303, and 4xx except {} and {last}.",
            first.join(", ")
        );
        assert!(guide.contains(&statuses), "write: {statuses}");
        let row = guide.lines().find(|line| line.starts_with("| headers |"));
        let mut listed: Vec<_> = row.unwrap().split('`').skip(1).step_by(2).collect();
        listed.retain(|name| !name.contains(['(', '*']) && *name != "Origin");
        let all = STORED;
        let mut stored: Vec<_> = all.iter().map(HeaderName::as_str).collect();
        listed.sort_unstable();
        stored.sort_unstable();
        assert_eq!(listed, stored);
    }

    #[test]
    fn a_policy_for_statuses_cannot_store_server_errors_or_interim_responses() {
        let [all, none] = [true, false].map(|stores| Rules {
            statuses: Some(Arc::new(move |_| stores)),
            ..Rules::default()
        });
        for (code, of_all, of_none) in [
            (101, Verdict::Release, Verdict::Release),
            (200, Verdict::Store, Verdict::Release),
            (308, Verdict::Store, Verdict::Release),
            (403, Verdict::Store, Verdict::Release),
            (408, Verdict::Store, Verdict::Failed),
            (412, Verdict::Store, Verdict::Release),
            (499, Verdict::Store, Verdict::Failed),
            (500, Verdict::Failed, Verdict::Failed),
            (503, Verdict::Failed, Verdict::Failed),
        ] {
            let status = StatusCode::from_u16(code).unwrap();
            assert_eq!(all.verdict(status), of_all, "{code}");
            assert_eq!(none.verdict(status), of_none, "{code}");
            // A final response is stored under every policy.
            let of_final = match of_none {
                Verdict::Release if code >= 200 => Verdict::Store,
                other => other,
            };
            assert_eq!(none.final_verdict(status), of_final, "{code}");
        }
    }

    #[test]
    fn headers_of_the_list_are_stored_and_no_others() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("content-type", "text/plain"),
            ("link", "<a>"),
            ("link", "<b>"),
            ("set-cookie", "session=1"),
            ("x-request-id", "r-1"),
            ("x-receipt", "17"),
            ("x-hop", "1"),
            ("etag", "\"e\""),
            ("connection", "keep-alive, X-Hop"),
            ("connection", "etag"),
            ("transfer-encoding", "chunked"),
            ("content-length", "4"),
            ("date", "Tue, 14 Nov 2023 22:13:20 GMT"),
        ] {
            headers.append(name, HeaderValue::from_static(value));
        }
        let rules = Rules {
            more_headers: vec![
                HeaderName::from_static("x-receipt"),
                HeaderName::from_static("x-hop"),
            ],
            ..Rules::default()
        };
        let stored = rules.stored_headers(&headers);
        let mut names: Vec<_> = stored.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, ["content-type", "link", "x-receipt"]);
        assert_eq!(stored.get_all("link").iter().count(), 2);
    }

    #[test]
    fn no_header_of_the_list_is_one_that_is_never_stored() {
        assert!(!STORED.iter().any(is_never_stored));
        for name in [
            "Set-Cookie",
            "set-cookie2",
            "connection",
            "keep-alive",
            "proxy-authenticate",
            "Proxy-Authorization",
            "te",
            "trailer",
            "transfer-encoding",
            "upgrade",
            "proxy-connection",
            "content-length",
        ] {
            assert!(storable_header(name).is_err(), "{name}");
        }
        assert_eq!(storable_header("X-Receipt").unwrap(), "x-receipt");
    }
}
