//! TLS to a server whose certificate `tests/scripts/valkey.sh` has made: for `localhost`, signed by an authority of its own.

use std::path::PathBuf;
use std::process::Stdio;

use idempotency_lambda::BoxError;
use idempotency_tests::process;
use idempotency_tests::server::ServerProcess;
use idempotency_tests::valkey::{Server, program};
use tokio::process::Command;

use super::bad_input::is_explained;
use super::server::URL;

/// The variable with the authorities that are trusted.
const TRUSTED: &str = "SSL_CERT_FILE";

/// Returns a file that the script has made: `authority.pem`, which signed the certificate, or `other.pem`.
fn file(name: &str) -> String {
    let folder = PathBuf::from(std::env::var_os("VALKEY_TLS").unwrap());
    folder.join(name).display().to_string()
}

/// Returns what a server writes that does not start.
async fn refusal(url: &str, trusted: &str) -> Result<String, BoxError> {
    let mut command = Command::from(process::server()?);
    command.env(URL, url).env(TRUSTED, file(trusted));
    // Its authorities would be trusted too.
    command.env_remove("SSL_CERT_DIR");
    command.stdout(Stdio::null()).kill_on_drop(true);
    let output = command.output().await?;
    assert!(!output.status.success(), "{url}");
    Ok(String::from_utf8(output.stderr)?)
}

#[tokio::test]
async fn tls_needs_an_authority_that_is_trusted_and_the_name_of_the_certificate()
-> Result<(), BoxError> {
    // The wheels have servers that were built without it.
    if !program().to_string_lossy().contains("debian") {
        return Ok(());
    }
    let (server, tls) = Server::start_with_tls(file("").as_ref())?;
    let plain = server.port();
    for (url, trusted, said) in [
        (
            format!("rediss://localhost:{tls}"),
            "other.pem",
            "set SSL_CERT_FILE to a file with its certificate authority",
        ),
        (
            format!("rediss://localhost:{tls}"),
            "none.pem",
            "set SSL_CERT_FILE to a file with one",
        ),
        (
            format!("rediss://127.0.0.1:{tls}"),
            "authority.pem",
            "reach it by the name that its certificate is for",
        ),
        (
            format!("rediss://localhost:{plain}"),
            "authority.pem",
            "and that it serves TLS",
        ),
        (
            format!("redis://localhost:{tls}"),
            "authority.pem",
            "whether it needs TLS (`rediss://`)",
        ),
    ] {
        let text = refusal(&url, trusted).await?;
        assert!(text.contains(said), "{url} with {trusted}: {text}");
        assert!(is_explained(&text), "{text}");
    }
    assert_eq!(server.ask(&["DBSIZE"]).text(), "0");

    let variables = [
        (URL, format!("rediss://localhost:{tls}")),
        (TRUSTED, file("authority.pem")),
    ];
    let variables = variables.map(|(name, value)| (name.to_owned(), value));
    let mut process = ServerProcess::start(variables).await?;
    let _client = process.pay("k-1", 3_600).await?;
    assert_eq!(server.ask(&["DBSIZE"]).text(), "1");
    Ok(())
}
