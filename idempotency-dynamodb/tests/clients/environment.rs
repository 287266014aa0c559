//! Each environment variable of the SDK counts for both clients: a process with it sends the same requests to the same hosts, as
//! often, signed with the same credentials, and ends alike.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};

use idempotency_core::protocol::condition::Condition;
use idempotency_core::record::{Record, RecordId};
use idempotency_core::store::Write;
use idempotency_dynamodb::{DynamoDbStore, DynamoDbStoreBuilder, LeanClient};
use idempotency_testkit::store::StoreExt;
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use super::{read_request, rows, said_in_full};

/// The variable that names the client of a process: `sdk` or `lean`.
const CLIENT: &str = "CLIENT_OF_THE_TEST";

/// What a process prints before the result of its claim.
const END: &str = "the end: ";

/// Claims a key in a process that a test started. In the test run it does nothing.
#[tokio::test]
async fn the_process() {
    let Ok(kind) = std::env::var(CLIENT) else {
        return;
    };
    let builder = DynamoDbStore::builder().table("payments");
    let store = match &*kind {
        "lean" => LeanClient::from_env()
            .await
            .map(|it| builder.lean_client(it)),
        _ => idempotency_dynamodb::default_client()
            .await
            .map(|it| builder.client(it)),
    };
    let end = match store.and_then(DynamoDbStoreBuilder::build) {
        Ok(store) => {
            let (id, record) = (RecordId::new("a#1"), Record::default());
            said_in_full(
                &store
                    .write(&id, Write::Put(record), &Condition::NoRecord)
                    .await,
            )
        }
        Err(error) => error.to_string(),
    };
    println!("\n{END}{end}");
}

/// DynamoDB, the sources of credentials and a proxy, in one server.
struct Server {
    port: u16,
    /// The status of DynamoDB's responses.
    status: Mutex<u16>,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Server {
    async fn start() -> Arc<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = Arc::new(Self {
            port: listener.local_addr().unwrap().port(),
            status: Mutex::new(200),
            requests: Arc::default(),
        });
        let accepting = Arc::clone(&server);
        tokio::spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                let server = Arc::clone(&accepting);
                // The client may close the connection at any time.
                tokio::spawn(async move { server.serve(BufReader::new(connection)).await.ok() });
            }
        });
        server
    }

    async fn serve(&self, mut connection: BufReader<TcpStream>) -> std::io::Result<()> {
        loop {
            let (line, headers) = read_request(&mut connection).await?;
            if line.is_empty() {
                return Ok(());
            }
            self.note(&line, &headers);
            let (status, body) = self.response(&line);
            let length = body.len();
            let head = format!(
                "HTTP/1.1 {status} -\r\ncontent-length: {length}\r\nx-amzn-requestid: 1\r\ncontent-type: application/x-amz-json-1.0\r\nx-aws-ec2-metadata-token-ttl-seconds: 60\r\n\r\n"
            );
            connection.write_all((head + &body).as_bytes()).await?;
        }
    }

    /// Notes what both clients must send alike.
    fn note(&self, line: &str, headers: &BTreeMap<String, String>) {
        let header = |name: &str| headers.get(name).map_or("", String::as_str);
        let credential = header("authorization").split("Credential=").nth(1);
        let credential = credential.and_then(|it| it.split(',').next());
        let mut credential: Vec<&str> = credential.unwrap_or_default().split('/').collect();
        if credential.len() > 1 {
            // The day.
            credential.remove(1);
        }
        let app = header("user-agent").split(" app/").nth(1);
        let app = app.unwrap_or_default();
        let noted = format!(
            "{line} | {} | {} | {} | {credential:?} | {app}",
            header("host"),
            header("x-amz-target"),
            header("x-amz-security-token"),
        );
        self.requests.lock().unwrap().push(noted);
    }

    fn response(&self, line: &str) -> (u16, String) {
        let credentials = |access: &str| {
            format!(
                r#"{{"Code":"Success","AccessKeyId":"{access}","SecretAccessKey":"s","Token":"t-{access}","Expiration":"2099-01-01T00:00:00Z"}}"#
            )
        };
        match line.split(' ').nth(1).unwrap() {
            "/container" => (200, credentials("of-container")),
            "/sso/federation/credentials?role_name=operator&account_id=111122223333" => (200, r#"{"roleCredentials":{"accessKeyId":"of-sso","secretAccessKey":"s","sessionToken":"t","expiration":4070908800000}}"#.to_owned()),
            "/latest/api/token" => (200, "token".to_owned()),
            "/latest/meta-data/iam/security-credentials/"
            | "/latest/meta-data/iam/security-credentials-extended/" => (200, "role".to_owned()),
            path if path.starts_with("/latest/") => (200, credentials("of-imds")),
            "/sts/" => (200, "<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>of-sts</AccessKeyId><SecretAccessKey>s</SecretAccessKey><SessionToken>t</SessionToken><Expiration>2099-01-01T00:00:00Z</Expiration></Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>".to_owned()),
            _ if line.starts_with("CONNECT") => (502, String::new()),
            _ => (*self.status.lock().unwrap(), "{}".to_owned()),
        }
    }
}

/// What a process with one of the clients did.
#[derive(Debug, PartialEq)]
struct Run {
    end: String,
    requests: Vec<String>,
}

fn run(server: &Server, folder: &Path, client: &str, variables: &[(&str, &str)]) -> Run {
    let url = format!("http://127.0.0.1:{}", server.port);
    let folder = folder.to_str().unwrap();
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "environment::the_process", "--nocapture"])
        .env_clear()
        .env("HOME", folder)
        .env(CLIENT, client)
        .envs(
            variables
                .iter()
                .map(|(name, value)| (name, value.replace("URL", &url).replace("FOLDER", folder))),
        )
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let end = text.lines().find_map(|line| line.strip_prefix(END));
    let errors = String::from_utf8_lossy(&output.stderr);
    let end = end.unwrap_or_else(|| panic!("{client} {variables:?}: {text}{errors}"));
    Run {
        // A time limit that ends a send on a busy machine says nothing of the variables.
        end: end.replace("maybe_again: true", "maybe_again: false"),
        requests: std::mem::take(&mut server.requests.lock().unwrap()),
    }
}

/// Words of `environment.txt` that stand for several variables.
const SETS: [(&str, &str); 6] = [
    ("PLACE", "AWS_REGION=eu-west-1 AWS_ENDPOINT_URL=URL"),
    ("KEYS", "AWS_ACCESS_KEY_ID=access AWS_SECRET_ACCESS_KEY=s"),
    // The proxy notes the host of each request over HTTPS, and refuses the request.
    (
        "PROXIED",
        "AWS_REGION=eu-west-1 HTTPS_PROXY=URL AWS_MAX_ATTEMPTS=1",
    ),
    ("CONFIG", "AWS_CONFIG_FILE=FOLDER/config"),
    ("NO_FILE", "AWS_SHARED_CREDENTIALS_FILE=FOLDER/none"),
    (
        "OF",
        "AWS_REGION=eu-west-1 AWS_ENDPOINT_URL=URL AWS_ENDPOINT_URL_SSO=URL/sso AWS_CONFIG_FILE=FOLDER/config AWS_EC2_METADATA_DISABLED=true",
    ),
];

/// Returns the variables that the words of a row set. A later word replaces an earlier one.
fn variables(words: &str) -> Vec<(&str, &str)> {
    let set = |word| SETS.iter().find(|(name, _)| *name == word);
    let words = words.split(' ');
    let words = words.flat_map(|word| set(word).map_or(word, |(_, all)| all).split(' '));
    words.map(|word| word.split_once('=').unwrap()).collect()
}

/// Profiles, and what signing in to them leaves behind.
const PROFILES: &str = "[profile sso]
sso_start_url = https://shop.example/start
sso_region = eu-west-1
sso_account_id = 111122223333
sso_role_name = operator
[profile sso-out]
sso_session = nowhere
sso_account_id = 111122223333
sso_role_name = operator
[sso-session nowhere]
sso_start_url = https://shop.example/start
sso_region = eu-west-1
[profile login]
login_session = arn:aws:iam::111122223333:user/a
[profile login-out]
login_session = arn:aws:iam::111122223333:user/b
[profile process]
credential_process = echo '{\"Version\":1,\"AccessKeyId\":\"of-process\",\"SecretAccessKey\":\"s\"}'
[profile process-fails]
credential_process = printf 'the vault\\nis locked' >&2; exit 3
[profile half]
aws_access_key_id = of-half
[profile region]
region = eu-west-1
";

/// Returns a folder with the files of a user's home.
fn home(server: &Server) -> std::path::PathBuf {
    let url = format!("http://127.0.0.1:{}", server.port);
    let folder = std::env::temp_dir().join(format!("environment-{}", server.port));
    let write = |name: &str, text: &str| {
        let file = folder.join(name);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    };
    write("token", "web-identity");
    write(
        ".aws/credentials",
        "[default]\naws_access_key_id = of-file\naws_secret_access_key = s\n[other]\naws_access_key_id = of-other\naws_secret_access_key = s\naws_session_token = t\n",
    );
    let config = format!(
        "[default]\nregion = eu-north-1\nendpoint_url = {url}\nmax_attempts = 2\nsdk_ua_app_id = of-profile\n[profile other]\nregion = eu-south-1\nservices = local\nretry_mode = legacy\n[services local]\ndynamodb =\n  endpoint_url = {url}\n[profile fips]\nregion = us-east-1\nuse_fips_endpoint = true\naccount_id_endpoint_mode = disabled\naws_account_id = 111122223333\n"
    );
    write("config", &(config + PROFILES));
    write(
        "default",
        "[default]\ncredential_process = echo no >&2; exit 1\n",
    );
    // The names are the digests of the start URL, with SHA-1, and of the session, with SHA-256.
    write(
        ".aws/sso/cache/47a099e79e12df46c5a2bdfbc2bc3d927971bf4e.json",
        r#"{"accessToken":"a","expiresAt":"2099-01-01T00:00:00Z"}"#,
    );
    write(
        ".aws/login/cache/3156c0e84dcc6b691c886a6bd56b200d742718ecf4ddbf949ad371a7995db7b5.json",
        r#"{"accessToken":{"accessKeyId":"of-login","secretAccessKey":"s","sessionToken":"t","accountId":"111122223333","expiresAt":"2099-01-01T00:00:00Z"},"tokenType":"aws_sigv4","refreshToken":"r","idToken":"i","clientId":"c","dpopKey":"k"}"#,
    );
    folder
}

/// Plays the row to both clients until they do the same, and that `is_expected`: on a busy machine the time limit of a client can end a
/// send, which is then repeated. `status` is that of DynamoDB's responses.
fn both(
    server: &Server,
    folder: &Path,
    (status, words): (&str, &str),
    row: &str,
    is_expected: impl Fn(&str) -> bool,
) {
    const TRIES: usize = 10;
    *server.status.lock().unwrap() = status.parse().unwrap();
    let variables = variables(words);
    let mut seen = Vec::new();
    for _ in 0..TRIES {
        let [sdk, lean] = ["sdk", "lean"].map(|client| run(server, folder, client, &variables));
        let sends = sdk.requests.iter().filter(|it| it.starts_with("POST /"));
        let text = format!("{} {} sends {:?}", sdk.end, sends.count(), sdk.requests);
        if lean == sdk && is_expected(&text.replace('\\', "")) {
            return;
        }
        seen.push((sdk, lean));
    }
    panic!("{row}: {seen:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_variable_of_the_sdk_counts_for_both_clients() {
    let server = Server::start().await;
    let folder = home(&server);
    let url = format!("http://127.0.0.1:{}", server.port);
    for row in rows(include_str!("environment.txt")) {
        let (words, contained) = row.split_once("=>").unwrap();
        let contained = contained.replace("URL", &url);
        let contained = contained.replace("FOLDER", folder.to_str().unwrap());
        let words = words.trim().split_once(' ').unwrap();
        let contained = contained.trim();
        both(&server, &folder, words, row, |text| {
            match contained.strip_prefix('^') {
                Some(start) => text.starts_with(start),
                None => text.contains(contained),
            }
        });
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_kind_of_profile_counts_or_is_named_with_the_cause() {
    let server = Server::start().await;
    let folder = home(&server);
    for row in rows(include_str!("profiles.txt")) {
        let (words, contained) = row.split_once(" => ").unwrap();
        let without = contained
            .split_once(" | without: ")
            .unwrap_or((contained, contained));
        let expected = match cfg!(feature = "profiles") {
            true => without.0,
            false => without.1,
        };
        both(&server, &folder, ("200", words), row, |text| {
            let mut parts = expected.split(" .. ");
            parts.all(|part| text.contains(part.trim()))
        });
    }
    std::fs::remove_dir_all(folder).unwrap();
}
