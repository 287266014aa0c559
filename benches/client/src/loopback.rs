//! Claims and completes over loopback connections, in alternation, and compares the CPU time of the clients.
//!
//! The server is this program, started again, so that its CPU time is not counted. It replies `{}` to every request, without TLS.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};

use aws_config::{BehaviorVersion, Region, SdkConfig};

use crate::ours::{self, Stores};
use crate::phases;

/// Replies to the requests of one connection.
fn reply(connection: TcpStream) {
    connection.set_nodelay(true).unwrap();
    let mut requests = BufReader::new(connection.try_clone().unwrap());
    let mut replies = connection;
    let (mut line, mut length) = (String::new(), 0);
    while requests.read_line(&mut line).is_ok_and(|read| read > 0) {
        if let Some(text) = line.to_lowercase().strip_prefix("content-length:") {
            length = text.trim().parse().unwrap();
        }
        if line == "\r\n" {
            let mut body = vec![0; length];
            requests.read_exact(&mut body).unwrap();
            let reply = b"HTTP/1.1 200 OK\r\nserver: Server\r\ndate: Sun, 22 Nov 2026 07:20:00 GMT\r\ncontent-type: application/x-amz-json-1.0\r\ncontent-length: 2\r\nconnection: keep-alive\r\nx-amzn-requestid: 4KBNVRGD25RG1KEO9UT4V3FQDJVV4KQNSO5AEMVJF66Q9ASUAAJG\r\nx-amz-crc32: 2745614147\r\n\r\n{}";
            if replies.write_all(reply).is_err() {
                return;
            }
        }
        line.clear();
    }
}

fn serve() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    println!("{}", listener.local_addr().unwrap());
    for connection in listener.incoming() {
        std::thread::spawn(|| reply(connection.unwrap()));
    }
}

/// Returns the CPU time of this process, in nanoseconds.
fn cpu() -> u64 {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    tasks
        .filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("schedstat")).ok())
        .map(|times| times.split(' ').next().unwrap().parse::<u64>().unwrap())
        .sum()
}

/// Runs the comparison, or its server.
pub(crate) fn run(arguments: &[String]) {
    if arguments[0] == "serve" {
        return serve();
    }
    let number = |index: usize, default: usize| {
        let argument = arguments.get(index + 1);
        argument.map_or(default, |argument| argument.parse().unwrap())
    };
    let (rounds, calls) = (number(0, 20), number(1, 100));
    let mut server = Command::new(std::env::current_exe().unwrap())
        .arg("serve")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut address = String::new();
    BufReader::new(server.stdout.take().unwrap())
        .read_line(&mut address)
        .unwrap();
    let runtime = crate::runtime();
    let config = SdkConfig::builder()
        .behavior_version(BehaviorVersion::v2026_01_12())
        .region(Region::from_static("eu-west-1"))
        .credentials_provider(crate::credentials(1_000))
        .http_client(idempotency_dynamodb::http_client())
        .endpoint_url(format!("http://{}", address.trim()))
        .build();
    let client = aws_sdk_dynamodb::Client::new(&config);
    let stores = Stores::new(&config, true);
    let (sdk, lean) = (stores.named("store"), stores.named("lean"));
    if arguments[0] == "phases" {
        runtime.block_on(phases::print(lean, number(0, 2_000)));
        server.kill().unwrap();
        server.wait().unwrap();
        return;
    }
    let response = || crate::RESPONSE.to_owned();
    let mut spent = [0_u64; 3];
    for round in 0..=rounds {
        for contestant in 0..3 {
            let contestant = (contestant + round) % 3;
            let before = cpu();
            runtime.block_on(async {
                for call in 0..calls {
                    let at = i64::try_from(round * calls + call).unwrap();
                    match contestant {
                        0 => crate::by_hand::call(&client, at).await,
                        1 => ours::call(&sdk, at, response()).await,
                        _ => ours::call(&lean, at, response()).await,
                    }
                }
            });
            // The first round opens connections.
            if round > 0 {
                spent[contestant] += cpu() - before;
            }
        }
    }
    server.kill().unwrap();
    server.wait().unwrap();
    let total = u64::try_from(rounds * calls).unwrap();
    for (name, nanos) in ["by-hand", "store", "lean"].iter().zip(spent) {
        let ratio = nanos as f64 / spent[0] as f64;
        println!(
            "{name}: {} us of CPU a call, {ratio:.2} x by hand",
            nanos / total / 1_000
        );
    }
}
