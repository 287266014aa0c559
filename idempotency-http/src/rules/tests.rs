use http::HeaderValue;

use super::*;

#[test]
fn each_status_is_stored_released_or_a_failure() {
    let rules = Rules::default();
    for code in 100..=599_u16 {
        let expected = match code {
            500..=599 | 408 | 499 => Verdict::Failed,
            304 | 401 | 403 | 409 | 412 | 417 | 421 | 425 | 428 | 429 => Verdict::Release,
            200..=299 | 301 | 302 | 303 | 400..=499 => Verdict::Store,
            _ => Verdict::Release,
        };
        let status = StatusCode::from_u16(code).unwrap();
        assert_eq!(rules.verdict(status), expected, "{code}");
    }
}

#[test]
fn a_policy_for_statuses_cannot_store_server_errors_and_interim_responses() {
    let all = Rules {
        statuses: Some(Arc::new(|_| true)),
        ..Rules::default()
    };
    let none = Rules {
        statuses: Some(Arc::new(|_| false)),
        ..Rules::default()
    };
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
