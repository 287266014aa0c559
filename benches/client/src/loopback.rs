//! The server for `client phases`: a second process of this program, which shares nothing with the measured one. It replies `{}` to
//! every request, without TLS.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};

use aws_config::{BehaviorVersion, Region, SdkConfig};

use crate::ours::Stores;
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

/// Serves requests for the argument `serve`. Otherwise starts such a server and prints the phases.
pub(crate) fn run(arguments: &[String]) {
    if arguments[0] == "serve" {
        return serve();
    }
    let calls = arguments.get(1);
    let calls = calls.map_or(2_000, |calls| calls.parse().unwrap());
    let mut server = Command::new(std::env::current_exe().unwrap())
        .arg("serve")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut address = String::new();
    BufReader::new(server.stdout.take().unwrap())
        .read_line(&mut address)
        .unwrap();
    let config = SdkConfig::builder()
        .behavior_version(BehaviorVersion::v2026_01_12())
        .region(Region::from_static("eu-west-1"))
        .credentials_provider(crate::credentials(1_000))
        .http_client(idempotency_dynamodb::http_client())
        .endpoint_url(format!("http://{}", address.trim()))
        .build();
    let lean = Stores::new(&config, true).named("lean");
    crate::runtime().block_on(phases::print(lean, calls));
    server.kill().unwrap();
    server.wait().unwrap();
}
