//! Compares signatures with those of `aws-sigv4`.

use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningParams, SigningSettings};
use proptest::prelude::*;

use super::*;

const TARGET: &str = "DynamoDB_20120810.UpdateItem";

fn identity(access: &str, secret: &str, token: Option<&str>) -> Identity {
    Credentials::new(access, secret, token.map(str::to_owned), None, "test").into()
}

fn signer(identity: &Identity, uri: &str, region: &str) -> Signer {
    let region = region.to_owned();
    Signer::new(identity, &Uri(uri), region, "dynamodb".to_owned()).unwrap()
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
    let signed = aws_sigv4::http_request::sign(request, &SigningParams::V4(params)).unwrap();
    let (instructions, _) = signed.into_parts();
    let header = |name: &str| {
        let found = instructions.headers().find(|(header, _)| *header == name);
        found.unwrap().1.to_owned()
    };
    (header("x-amz-date"), header("authorization"))
}

fn signed(signer: &Signer, body: &[u8], now: SystemTime) -> (String, String) {
    let signature = signer.sign(TARGET, &Hex::of_body(body), now).unwrap();
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
    let keys: Vec<_> = [midnight - 1, midnight, midnight + DAY - 1, midnight + DAY]
        .map(|second| signer.day(second / DAY).unwrap())
        .into_iter()
        .collect();
    assert!(!Arc::ptr_eq(&keys[0], &keys[1]));
    assert!(Arc::ptr_eq(&keys[1], &keys[2]));
    assert!(!Arc::ptr_eq(&keys[2], &keys[3]));
    for second in [midnight - 1, midnight, midnight + DAY - 1, midnight + DAY] {
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
