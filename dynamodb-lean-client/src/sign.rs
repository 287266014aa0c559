//! Signs requests with Signature Version 4.
//!
//! The signed headers are always the same four, or five with a session token, so the canonical request is a fixed text with gaps. The
//! signing key depends on the day alone, once credentials, region and service are known, and is kept for that day. Key and signature are
//! computed by `aws-sigv4`; a test compares the whole with its signatures.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_sdk_dynamodb::config::Credentials;
use aws_sdk_dynamodb::error::BoxError;
use aws_sdk_dynamodb::primitives::{DateTime, DateTimeFormat};
use aws_sigv4::http_request::{
    SignableBody, SignableRequest, SigningParams, SigningSettings, sign,
};
use aws_sigv4::sign::v4;
use aws_smithy_runtime_api::client::identity::Identity;
use sha2::{Digest, Sha256};

/// The type of every body.
pub(crate) const CONTENT_TYPE: &str = "application/x-amz-json-1.0";

/// The number of seconds in a day.
const DAY: u64 = 24 * 60 * 60;

/// Signs requests to one endpoint with one set of credentials.
///
/// It has no `Debug`: it contains keys.
pub(crate) struct Signer {
    pub(crate) identity: Identity,
    region: String,
    service: String,
    /// The URI of the endpoint.
    uri: String,
    /// Two parts of the canonical request: before the time, and between the time and the target. `None` if the endpoint has a
    /// path: then `aws-sigv4` signs the whole request, because it must normalise the path.
    canonical: Option<(String, String)>,
    /// The names of the signed headers.
    signed_headers: &'static str,
    /// What depends on the day.
    today: Mutex<Option<Arc<Day>>>,
}

/// What the signatures of one day have in common.
struct Day {
    /// The number of days since 1970.
    number: u64,
    /// The date, as `20261122`.
    date: String,
    /// The signing key.
    key: Box<[u8]>,
    /// Date, region and service, as they are signed.
    scope: String,
    /// The header up to the signature.
    authorization: String,
}

/// The headers of one signature.
pub(crate) struct Signature {
    /// `x-amz-date`.
    pub(crate) date: String,
    /// `authorization`.
    pub(crate) authorization: String,
}

impl Signer {
    /// Returns a signer for the endpoint `uri`, with an absolute path and no query.
    pub(crate) fn new(
        identity: &Identity,
        uri: &str,
        region: String,
        service: String,
    ) -> Result<Self, BoxError> {
        let token = credentials(identity)?.session_token();
        let mut after_time = String::new();
        if let Some(token) = token {
            write!(after_time, "\nx-amz-security-token:{token}")?;
        }
        after_time.push_str("\nx-amz-target:");
        let before_time = format!(
            "POST\n/\n\ncontent-type:{CONTENT_TYPE}\nhost:{}\nx-amz-date:",
            host(uri)
        );
        Ok(Self {
            identity: identity.clone(),
            region,
            service,
            uri: uri.to_owned(),
            canonical: is_plain(uri).then_some((before_time, after_time)),
            signed_headers: match token {
                Some(_) => "content-type;host;x-amz-date;x-amz-security-token;x-amz-target",
                None => "content-type;host;x-amz-date;x-amz-target",
            },
            today: Mutex::new(None),
        })
    }

    /// Signs a request with this target that is sent at `now`. `body` is the digest of its body.
    pub(crate) fn sign(
        &self,
        target: &'static str,
        body: &str,
        now: SystemTime,
    ) -> Result<Signature, BoxError> {
        let Some((before_time, after_time)) = &self.canonical else {
            return self.sign_with_path(target, body, now);
        };
        let seconds = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let day = self.day(seconds / DAY)?;
        let date = time(&day.date, seconds % DAY);

        let mut canonical = Sha256::new();
        for part in [
            before_time,
            date.as_str(),
            after_time,
            target,
            "\n\n",
            self.signed_headers,
            "\n",
            body,
        ] {
            canonical.update(part);
        }
        let text = format!(
            "AWS4-HMAC-SHA256\n{date}\n{}\n{}",
            day.scope,
            hex(canonical)
        );
        let signature = v4::calculate_signature(&day.key, text.as_bytes());
        Ok(Signature {
            date,
            authorization: [day.authorization.as_str(), &signature].concat(),
        })
    }

    /// Returns what depends on the day, from the last request if that was on the same day.
    fn day(&self, number: u64) -> Result<Arc<Day>, BoxError> {
        let mut today = self.today.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(day) = today.as_ref().filter(|day| day.number == number) {
            return Ok(Arc::clone(day));
        }
        let credentials = credentials(&self.identity)?;
        let begin = Duration::from_secs(number * DAY);
        // `2026-11-22T00:00:00Z`.
        let date = DateTime::from_secs(i64::try_from(begin.as_secs())?);
        let date = date.fmt(DateTimeFormat::DateTime)?;
        let date = date.split('T').next().unwrap_or_default().replace('-', "");
        let secret = credentials.secret_access_key();
        let key = v4::generate_signing_key(secret, UNIX_EPOCH + begin, &self.region, &self.service);
        let scope = format!("{date}/{}/{}/aws4_request", self.region, self.service);
        let day = Arc::new(Day {
            number,
            key: key.as_ref().into(),
            authorization: format!(
                "AWS4-HMAC-SHA256 Credential={}/{scope}, SignedHeaders={}, Signature=",
                credentials.access_key_id(),
                self.signed_headers
            ),
            date,
            scope,
        });
        *today = Some(Arc::clone(&day));
        Ok(day)
    }

    /// Signs a request to an endpoint with a path.
    fn sign_with_path(
        &self,
        target: &'static str,
        body: &str,
        now: SystemTime,
    ) -> Result<Signature, BoxError> {
        let params = v4::SigningParams::builder()
            .identity(&self.identity)
            .region(&self.region)
            .name(&self.service)
            .time(now)
            .settings(SigningSettings::default())
            .build()?;
        let headers = [("content-type", CONTENT_TYPE), ("x-amz-target", target)];
        let body = SignableBody::Precomputed(body.to_owned());
        let request = SignableRequest::new("POST", &self.uri, headers.into_iter(), body)?;
        let (instructions, _) = sign(request, &SigningParams::V4(params))?.into_parts();
        let header = |name| {
            let mut headers = instructions.headers();
            let found = headers.find(|(header, _)| *header == name);
            found.map_or_else(String::new, |(_, value)| value.to_owned())
        };
        Ok(Signature {
            date: header("x-amz-date"),
            authorization: header("authorization"),
        })
    }
}

/// Returns the keys of an identity.
pub(crate) fn credentials(identity: &Identity) -> Result<&Credentials, BoxError> {
    identity
        .data()
        .ok_or_else(|| "the identity has no AWS credentials".into())
}

/// Returns host and port of a URI, as the header `host` has them: without the usual port of the scheme.
fn host(uri: &str) -> &str {
    let (scheme, rest) = uri.split_once("://").unwrap_or(("https", uri));
    let authority = rest.split(['/', '?']).next().unwrap_or_default();
    let usual = if scheme == "https" { ":443" } else { ":80" };
    authority.strip_suffix(usual).unwrap_or(authority)
}

/// Returns true if a URI has no path, and no user.
fn is_plain(uri: &str) -> bool {
    let rest = uri.split_once("://").map_or(uri, |(_, rest)| rest);
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    !rest.contains(['/', '?', '@'])
}

/// Returns a digest as lower-case hexadecimal digits.
pub(crate) fn hex(digest: Sha256) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |value: u8| char::from(DIGITS[usize::from(value & 15)]);
    let digest = digest.finalize();
    let bytes = digest.iter();
    bytes
        .flat_map(|byte| [digit(byte >> 4), digit(*byte)])
        .collect()
}

/// Returns date and time, as `20261122T070658Z`.
fn time(date: &str, second: u64) -> String {
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let mut text = String::with_capacity(16);
    text.push_str(date);
    text.push('T');
    for part in [hour, minute, second] {
        for digit in [part / 10, part % 10] {
            // One digit. The default cannot be needed.
            text.push(
                char::from_digit(u32::try_from(digit).unwrap_or_default(), 10).unwrap_or('0'),
            );
        }
    }
    text.push('Z');
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TARGET: &str = "DynamoDB_20120810.UpdateItem";

    fn identity(access: &str, secret: &str, token: Option<&str>) -> Identity {
        Credentials::new(access, secret, token.map(str::to_owned), None, "test").into()
    }

    fn signer(identity: &Identity, uri: &str, region: &str) -> Signer {
        let region = region.to_owned();
        Signer::new(identity, uri, region, "dynamodb".to_owned()).unwrap()
    }

    /// Returns the time and the authorization by which `aws-sigv4` signs the same request.
    fn reference(
        identity: &Identity,
        uri: &str,
        region: &str,
        body: &[u8],
        now: SystemTime,
    ) -> (String, String) {
        let params = v4::SigningParams::builder()
            .identity(identity)
            .region(region)
            .name("dynamodb")
            .time(now)
            .settings(SigningSettings::default())
            .build()
            .unwrap();
        let headers = [("content-type", CONTENT_TYPE), ("x-amz-target", TARGET)];
        let body = SignableBody::Bytes(body);
        let request = SignableRequest::new("POST", uri, headers.into_iter(), body).unwrap();
        let signed = sign(request, &SigningParams::V4(params)).unwrap();
        let (instructions, _) = signed.into_parts();
        let header = |name: &str| {
            let found = instructions.headers().find(|(header, _)| *header == name);
            found.unwrap().1.to_owned()
        };
        (header("x-amz-date"), header("authorization"))
    }

    fn signed(signer: &Signer, body: &[u8], now: SystemTime) -> (String, String) {
        let signature = signer
            .sign(TARGET, &hex(Sha256::new_with_prefix(body)), now)
            .unwrap();
        (signature.date, signature.authorization)
    }

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    proptest! {
        #[test]
        fn a_signature_is_that_of_aws_sigv4(
            body in proptest::collection::vec(any::<u8>(), 0..2_000),
            access in "[A-Z0-9]{1,30}",
            secret in "[A-Za-z0-9+/]{1,60}",
            token in proptest::option::of("[A-Za-z0-9+/=]{1,900} ?"),
            region in "[a-z]{2}-[a-z]{3,9}-[1-9]",
            // From 1970 to 9999.
            times in proptest::collection::vec(0_u64..253_402_300_800, 1..4),
            host in prop_oneof![
                Just("https://dynamodb.eu-west-1.amazonaws.com".to_owned()),
                Just("https://dynamodb.eu-west-1.amazonaws.com/".to_owned()),
                Just("https://host:443".to_owned()),
                Just("https://host:80".to_owned()),
                Just("http://host:80/".to_owned()),
                "http://[a-z]{1,9}:[1-9][0-9]{0,3}",
                "https://[a-z]{1,9}/[a-z%2/. ~]{0,9}".prop_map(|uri| uri.replace([' ', '%'], "%20")),
            ],
        ) {
            let identity = identity(&access, &secret, token.as_deref());
            let signer = signer(&identity, &host, &region);
            for seconds in times {
                let now = at(seconds);
                prop_assert_eq!(
                    signed(&signer, &body, now),
                    reference(&identity, &host, &region, &body, now)
                );
            }
        }
    }

    #[test]
    fn the_signing_key_is_kept_for_a_day_and_renewed_with_the_next() {
        let identity = identity("access", "secret", None);
        let signer = signer(&identity, "https://host", "eu-west-1");
        let midnight = 20_000 * DAY;
        let seconds = [midnight - 1, midnight, midnight + DAY - 1, midnight + DAY];
        let keys = seconds.map(|second| signer.day(second / DAY).unwrap());
        let kept = [0, 1, 2].map(|at| Arc::ptr_eq(&keys[at], &keys[at + 1]));
        assert_eq!(kept, [false, true, false]);
        for second in seconds {
            let now = at(second);
            let expected = reference(&identity, "https://host", "eu-west-1", b"{}", now);
            assert_eq!(signed(&signer, b"{}", now), expected);
        }
    }

    #[test]
    fn a_clock_before_1970_counts_as_1970() {
        let identity = identity("access", "secret", None);
        let signer = signer(&identity, "https://host", "eu-west-1");
        let before = UNIX_EPOCH - Duration::from_secs(1);
        assert_eq!(signed(&signer, b"{}", before).0, "19700101T000000Z");
    }
}
