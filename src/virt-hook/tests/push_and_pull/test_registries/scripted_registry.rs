//! A registry whose answers the test defines, valid or not.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;

/// An answer of the registry.
#[derive(Debug, Clone)]
pub(crate) enum Answer {
    Response {
        status: u16,
        headers: String,
        body: Vec<u8>,
        /// The `Content-Length`, if it is not the body's.
        content_length: Option<usize>,
    },
    /// The body, a byte each 0.3 s.
    Trickle(Vec<u8>),
    /// No answer, for longer than a client waits.
    Silence,
}

impl Answer {
    pub(crate) fn of(body: Vec<u8>) -> Self {
        Self::Response {
            status: 200,
            headers: String::new(),
            body,
            content_length: None,
        }
    }

    pub(crate) fn status(status: u16) -> Self {
        match Self::of(Vec::new()) {
            Self::Response {
                headers,
                body,
                content_length,
                ..
            } => Self::Response {
                status,
                headers,
                body,
                content_length,
            },
            other => other,
        }
    }

    pub(crate) fn error(message: &str) -> Self {
        Self::Response {
            status: 500,
            headers: String::new(),
            body: json!({"errors": [{"message": message}]})
                .to_string()
                .into_bytes(),
            content_length: None,
        }
    }

    pub(crate) fn challenge(header: &str) -> Self {
        Self::Response {
            status: 401,
            headers: format!("WWW-Authenticate: {header}\r\n"),
            body: Vec::new(),
            content_length: None,
        }
    }

    pub(crate) fn redirect(status: u16, location: &str) -> Self {
        Self::Response {
            status,
            headers: format!("Location: {location}\r\n"),
            body: Vec::new(),
            content_length: None,
        }
    }

    /// The same answer with another `Content-Length`.
    pub(crate) fn with_content_length(self, length: usize) -> Self {
        match self {
            Self::Response {
                status,
                headers,
                body,
                ..
            } => Self::Response {
                status,
                headers,
                body,
                content_length: Some(length),
            },
            other => other,
        }
    }
}

/// A registry with scripted answers.
pub(crate) struct ScriptedRegistry {
    port: u16,
    host: String,
    authorizations: Arc<Mutex<Vec<Option<String>>>>,
    paths: Arc<Mutex<Vec<String>>>,
}

impl ScriptedRegistry {
    /// Answers requests by their path until the test program ends.
    pub(crate) fn start(answer: impl Fn(&str) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let authorizations = Arc::new(Mutex::new(Vec::new()));
        let paths = Arc::new(Mutex::new(Vec::new()));
        let (answer, seen) = (Arc::new(answer), Arc::clone(&authorizations));
        let seen_paths = Arc::clone(&paths);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (answer, seen) = (Arc::clone(&answer), Arc::clone(&seen));
                let seen_paths = Arc::clone(&seen_paths);
                std::thread::spawn(move || {
                    let answer = |path: &str| {
                        seen_paths.lock().unwrap().push(path.to_owned());
                        answer(path)
                    };
                    serve(&stream, &answer, &seen);
                });
            }
        });
        Self {
            port,
            host: format!("localhost:{port}"),
            authorizations,
            paths,
        }
    }

    /// The path of each request so far.
    pub(crate) fn paths(&self) -> Vec<String> {
        self.paths.lock().unwrap().clone()
    }

    /// The registry's address with another host name, so that clients take it for another host.
    pub(crate) fn foreign_host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The header `Authorization` of each request so far.
    pub(crate) fn authorizations(&self) -> Vec<Option<String>> {
        self.authorizations.lock().unwrap().clone()
    }

    pub(crate) fn host(&self) -> &str {
        &self.host
    }
}

/// Answers one request and closes the connection.
fn serve(
    mut stream: &TcpStream,
    answer: &dyn Fn(&str) -> Answer,
    authorizations: &Mutex<Vec<Option<String>>>,
) {
    let mut reader = BufReader::new(stream);
    let mut lines = reader.by_ref().lines();
    let Some(Ok(first)) = lines.next() else {
        return;
    };
    let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
    let (mut authorization, mut length) = (None, 0);
    for line in lines {
        let line = line.unwrap_or_default();
        if line.is_empty() {
            break;
        }
        match line.split_once(": ") {
            Some((name, value)) if name.eq_ignore_ascii_case("authorization") => {
                authorization = Some(value.to_owned());
            }
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                length = value.parse().unwrap_or_default();
            }
            _ => {}
        }
    }
    // The answer would be lost if the connection were closed with the body unread.
    let _ = io::copy(&mut reader.take(length), &mut io::sink());
    authorizations.lock().unwrap().push(authorization);
    match answer(&path) {
        Answer::Silence => std::thread::sleep(Duration::from_secs(60)),
        Answer::Trickle(body) => {
            let head = format!(
                "HTTP/1.1 200 Status\r\nContent-Length: {}\r\n\r\n",
                body.len()
            );
            let _ = stream.write_all(head.as_bytes());
            for byte in body {
                if stream.write_all(&[byte]).is_err() {
                    return;
                }
                std::thread::sleep(Duration::from_millis(300));
            }
        }
        Answer::Response {
            status,
            headers,
            body,
            content_length,
        } => {
            let length = content_length.unwrap_or(body.len());
            let head = format!(
                "HTTP/1.1 {status} Status\r\n{headers}Content-Length: {length}\r\nConnection: close\r\n\r\n"
            );
            // Fails if the client has closed the connection.
            let _ = stream
                .write_all(head.as_bytes())
                .and_then(|()| stream.write_all(&body));
        }
    }
}

/// A manifest with one layer, with this size in the layer's descriptor.
pub(crate) fn manifest_with_layer(types: [&str; 2], layer: &[u8], size: usize) -> Vec<u8> {
    let [config, media_type] = types;
    let layers = [json!({"mediaType": media_type, "digest": sha256(layer), "size": size})];
    let manifest = json!({"schemaVersion": 2, "config": {"mediaType": config}, "layers": layers});
    manifest.to_string().into_bytes()
}

/// The digest of a content, as OCI writes it.
pub(crate) fn sha256(content: &[u8]) -> String {
    let mut sum = Command::new("sha256sum")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    sum.stdin.take().unwrap().write_all(content).unwrap();
    let output = sum.wait_with_output().unwrap();
    format!(
        "sha256:{}",
        &String::from_utf8(output.stdout).unwrap()[..64]
    )
}
