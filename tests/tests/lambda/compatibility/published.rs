//! What other packages ship: the compliance suite of JMESPath, and events of Lambda. They are read in the packages' sources, which
//! cargo unpacks for every build of these tests.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use idempotency_core::config::{Settings, Variables};
use idempotency_core::key::{Expression, HashAlgorithm, Json};
use idempotency_core::operation::CompiledOperation;
use idempotency_http::{HttpOperation, ReceivedRequest};
use lambda_http::http::HeaderValue;
use serde::Deserialize;
use serde_json::value::RawValue;

/// Returns the folder of a package's sources, in the version of `Cargo.lock`.
fn package(name: &str) -> PathBuf {
    let lock = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.lock")).unwrap();
    let mut packages = lock.split("[[package]]");
    let of = format!("\nname = \"{name}\"\nversion = \"");
    let version = packages.find_map(|package| package.strip_prefix(of.as_str())?.split('"').next());
    let folder = format!("{name}-{}", version.unwrap());
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
    let registries = home.unwrap().join("registry/src");
    let mut registries = fs::read_dir(&registries).unwrap().flatten();
    let found = registries
        .find_map(|registry| Some(registry.path().join(&folder)).filter(|folder| folder.is_dir()));
    found.unwrap_or_else(|| panic!("no {folder} in the registry's sources"))
}

/// Returns the JSON files below a folder, by name.
fn json_files(folder: &Path) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let (path, name) = (entry.path(), entry.file_name().into_string().unwrap());
        if path.is_dir() {
            files.extend(json_files(&path));
        } else if name.ends_with(".json") && !name.starts_with('.') {
            files.insert(name, fs::read_to_string(path).unwrap());
        }
    }
    files
}

/// Cases of the suite on one payload.
#[derive(Deserialize)]
struct Suite {
    given: Box<RawValue>,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    expression: String,
    /// `null` is a result too.
    #[serde(default, deserialize_with = "Case::some")]
    result: Option<Box<RawValue>>,
    error: Option<String>,
}

impl Case {
    fn some<'de, D: serde::Deserializer<'de>>(value: D) -> Result<Option<Box<RawValue>>, D::Error> {
        Box::deserialize(value).map(Some)
    }
}

#[test]
fn the_compliance_suite_of_jmespath_has_the_results_that_it_names() {
    let (mut count, mut timed) = (0, 0);
    for (name, text) in json_files(&package("jmespath").join("tests/compliance")) {
        let suites: Vec<Suite> = serde_json::from_str(&text).unwrap();
        for Suite { given, cases } in suites {
            let given = Json::parse(given.get()).unwrap();
            for case in cases {
                let expression = Expression::compile(&case.expression);
                let found = expression
                    .map_err(drop)
                    .and_then(|it| it.evaluate(&given).map_err(drop));
                let found = found.map(|value| value.to_canonical());
                let text = &case.expression;
                match (case.result, case.error) {
                    (Some(result), None) => {
                        count += 1;
                        let expected = Json::parse(result.get()).unwrap().to_canonical();
                        assert_eq!(found, Ok(expected), "{name}: {text}");
                    }
                    (None, Some(error)) => {
                        count += 1;
                        assert_eq!(found, Err(()), "{name}: {text}: {error}");
                    }
                    // A case that measures time names no result.
                    (None, None) => timed += 1,
                    (Some(_), Some(_)) => panic!("{name}: {text} has a result and an error"),
                }
            }
        }
    }
    assert_eq!((count, timed), (861, 14));
}

/// Returns an operation whose key is the whole event.
fn whole() -> CompiledOperation {
    let settings = Settings {
        key_prefix: Some("shop".into()),
        ..Settings::default()
    };
    CompiledOperation::new("charge", &settings, &Variables::default()).unwrap()
}

#[test]
fn each_event_that_other_packages_ship_has_the_key_that_python_makes() {
    let rows = include_str!("../../../vectors/python_events.txt").lines();
    let rows = rows.filter(|row| !row.starts_with('#')).map(|row| {
        let columns: Vec<_> = row.split(' ').collect();
        ((columns[0].to_owned(), columns[1].to_owned()), columns[2])
    });
    let mut expected: BTreeMap<_, _> = rows.collect();
    for package_name in ["aws_lambda_events", "lambda_http"] {
        for (name, text) in json_files(&package(package_name)) {
            let digest = expected.remove(&(package_name.to_owned(), name.clone()));
            let digest =
                digest.unwrap_or_else(|| panic!("{name}: run tests/interop/event_keys.py"));
            let key = HashAlgorithm::Md5.hex(&Json::parse(&text).unwrap().to_canonical());
            assert_eq!(key, digest, "{name}");
            let id = format!("shop#{digest}");
            let identity = whole().identify(&text, None).unwrap();
            assert_eq!(
                identity.key().map(|id| id.as_str()),
                Some(id.as_str()),
                "{name}"
            );
            let value: serde_json::Value = serde_json::from_str(&text).unwrap();
            let identity = whole().identify_value(&value, None).unwrap();
            assert_eq!(
                identity.key().map(|id| id.as_str()),
                Some(id.as_str()),
                "{name}"
            );
        }
    }
    assert!(expected.is_empty(), "{expected:?} are no longer there");
}

#[test]
fn each_request_that_lambda_http_reads_has_a_key_and_the_fingerprint_of_what_it_is() {
    let operation = HttpOperation::builder("shop::pay").shared_by_all_callers();
    let operation = operation.variables(Variables::default()).build().unwrap();
    let mut sent = BTreeMap::new();
    let mut lattice = 0;
    for (name, text) in json_files(&package("lambda_http")) {
        let identity = || {
            let request = lambda_http::request::from_str(&text).ok()?;
            let (mut parts, body) = request.into_parts();
            let key = HeaderValue::from_static("k-1");
            parts.headers.insert("idempotency-key", key);
            let request = ReceivedRequest::new(&parts, &body);
            let identity = operation.identity(&request, None).unwrap();
            let (path, query) = (parts.uri.path(), parts.uri.query());
            let compared = format!("{} {path} {query:?} {:?}", parts.method, &*body);
            Some((identity, compared))
        };
        let Some((first, compared)) = identity() else {
            assert!(name.starts_with("vpc_lattice"), "{name}");
            lattice += 1;
            continue;
        };
        let again = identity().map(|(again, _)| again);
        assert_eq!(again.as_ref(), Some(&first), "{name}");
        assert!(first.key().is_some(), "{name}");
        // Two of the files are the request of another file, under another host.
        let fingerprint = first.validation().unwrap().to_owned();
        let of_equal = sent.entry(fingerprint).or_insert_with(|| compared.clone());
        assert_eq!(*of_equal, compared, "{name}");
    }
    let different: BTreeSet<_> = sent.values().collect();
    assert_eq!((sent.len(), different.len(), lattice), (13, 13, 3));
}
