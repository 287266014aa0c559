//! HTTP/1.1 with keep-alive, as far as the SDKs use it: requests with a length, responses with a length.

use std::io::{self, Read};
use std::ops::Range;
use std::time::SystemTime;

const LARGEST_HEAD: usize = 64 * 1024;

/// A request that was received as a whole.
pub struct Request {
    /// The operation, such as `PutItem`.
    pub operation: String,
    /// Where the body is among the received bytes.
    pub body: Range<usize>,
}

/// Reads until `received` starts with a whole request, and returns it. Returns `None` if the client has closed the connection.
pub fn read(stream: &mut impl Read, received: &mut Vec<u8>) -> io::Result<Option<Request>> {
    let mut chunk = [0; 16 * 1024];
    loop {
        if let Some(request) = parse(received)?
            && received.len() >= request.body.end
        {
            return Ok(Some(request));
        }
        let read = match stream.read(&mut chunk) {
            Ok(0) => return Ok(None),
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        received.extend_from_slice(&chunk[..read]);
    }
}

fn parse(received: &[u8]) -> io::Result<Option<Request>> {
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut request = httparse::Request::new(&mut headers);
    let head = match request.parse(received).map_err(io::Error::other)? {
        httparse::Status::Complete(head) => head,
        httparse::Status::Partial if received.len() > LARGEST_HEAD => {
            return Err(io::Error::other("the head of the request is too large"));
        }
        httparse::Status::Partial => return Ok(None),
    };
    let header = |name: &str| {
        let found = request
            .headers
            .iter()
            .find(|header| header.name.eq_ignore_ascii_case(name));
        found.and_then(|header| std::str::from_utf8(header.value).ok())
    };
    let target = header("x-amz-target").unwrap_or_default();
    let length: usize = header("content-length")
        .and_then(|length| length.parse().ok())
        .ok_or_else(|| io::Error::other("the request has no length"))?;
    Ok(Some(Request {
        operation: target.rsplit('.').next().unwrap_or_default().to_owned(),
        body: head..head + length,
    }))
}

/// Writes a response with the headers of DynamoDB.
pub fn write(response: &mut Vec<u8>, status: u16, body: &[u8]) {
    use std::io::Write as _;
    response.clear();
    let reason = if status == 200 { "OK" } else { "Bad Request" };
    let written = write!(
        response,
        "HTTP/1.1 {status} {reason}\r\nserver: Server\r\ncontent-type: application/x-amz-json-1.0\r\ncontent-length: {}\r\n\
         connection: keep-alive\r\nx-amzn-requestid: 4KBNVRGD25RG1KEO9UT4V3FQDJVV4KQNSO5AEMVJF66Q9ASUAAJG\r\n\
         x-amz-crc32: {}\r\ndate: {}\r\n\r\n",
        body.len(),
        crc32fast::hash(body),
        // The SDKs compare it with their clock.
        httpdate::fmt_http_date(SystemTime::now()),
    );
    debug_assert!(written.is_ok(), "a vector takes everything");
    response.extend_from_slice(body);
}

#[cfg(test)]
mod tests {
    use super::*;

    const PUT: &[u8] =
        b"POST / HTTP/1.1\r\nX-Amz-Target: DynamoDB_20120810.PutItem\r\ncontent-length: 2\r\n\r\n{}";

    /// Gives one byte at a time.
    struct Slow<'a>(&'a [u8]);

    impl Read for Slow<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let Some((first, rest)) = self.0.split_first() else {
                return Ok(0);
            };
            buffer[0] = *first;
            self.0 = rest;
            Ok(1)
        }
    }

    #[test]
    fn two_requests_on_one_connection_are_read_however_they_arrive() {
        let twice = [PUT, PUT].concat();
        let mut streams: [Box<dyn Read>; 2] = [Box::new(Slow(&twice)), Box::new(&twice[..])];
        for stream in &mut streams {
            let mut received = Vec::new();
            for _ in 0..2 {
                let request = read(stream, &mut received).unwrap().unwrap();
                assert_eq!(request.operation, "PutItem");
                assert_eq!(&received[request.body.clone()], b"{}");
                received.drain(..request.body.end);
            }
            assert!(read(stream, &mut received).unwrap().is_none());
        }
    }

    #[test]
    fn a_request_without_a_length_is_an_error() {
        let mut stream: &[u8] = b"POST / HTTP/1.1\r\n\r\n";
        assert!(read(&mut stream, &mut Vec::new()).is_err());
    }
}
