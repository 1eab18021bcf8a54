//! Ends Istio's sidecar proxy, which would otherwise keep the pod running.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpStream};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::json_log_lines;
use crate::listening_ports;

/// The addresses of `localhost`: a pod may have only IPv4 or only IPv6.
const LOCALHOST: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::LOCALHOST),
    IpAddr::V6(Ipv6Addr::LOCALHOST),
];
const AGENT_PORT: u16 = 15020;
const HEALTH_PORT: u16 = 15021;
/// How long one request and its answer may take.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);
/// The pauses between attempts: a proxy that is just starting resets connections or answers 503.
const RETRY_PAUSES: [Duration; 3] = [
    Duration::from_millis(50),
    Duration::from_millis(250),
    Duration::from_millis(1250),
];
/// Maximum number of bytes that are read of an answer.
const MAX_ANSWER_BYTES: usize = 16 * 1024;

/// Makes the proxy quit, if there is one.
pub(crate) fn end() {
    Proxy {
        health_port: HEALTH_PORT,
        agent_port: AGENT_PORT,
    }
    .end();
}

/// The ports of the proxy.
struct Proxy {
    health_port: u16,
    agent_port: u16,
}

impl Proxy {
    fn end(&self) {
        // KubeVirt's masquerade passes on to the guest what is sent to `localhost`. A guest that is off answers nothing, and
        // what another guest listens to is none of the monitor's business.
        if !listening_ports::is_listened_to(self.health_port) || !self.is_present() {
            return;
        }
        if let Err(error) = retry(is_busy, || self.quit()) {
            json_log_lines::error(&format!(
                "all attempts to terminate istio-proxy failed: {error}"
            ));
        }
    }

    /// Whether Envoy answers on the health port. A refused connection is not retried, so that a pod without a proxy
    /// does not wait.
    fn is_present(&self) -> bool {
        let is_reset = |error: &io::Error| error.kind() == io::ErrorKind::ConnectionReset;
        let answer = retry(is_reset, || {
            request(self.health_port, "GET", "/healthz/ready")
        });
        answer.is_ok_and(|answer| {
            answer
                .header("server")
                .is_some_and(|server| server == "envoy")
        })
    }

    fn quit(&self) -> io::Result<()> {
        match request(self.agent_port, "POST", "/quitquitquit")?.status {
            200 => Ok(()),
            503 => Err(io::ErrorKind::ResourceBusy.into()),
            status => Err(io::Error::other(format!("it answers {status}"))),
        }
    }
}

fn is_busy(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, ConnectionReset, ResourceBusy};
    matches!(
        error.kind(),
        ConnectionRefused | ConnectionReset | ResourceBusy
    )
}

fn retry<T>(
    is_retryable: impl Fn(&io::Error) -> bool,
    mut attempt: impl FnMut() -> io::Result<T>,
) -> io::Result<T> {
    for pause in RETRY_PAUSES {
        match attempt() {
            Err(error) if is_retryable(&error) => sleep(pause),
            result => return result,
        }
    }
    attempt()
}

/// An HTTP answer without its body.
struct Answer {
    status: u16,
    head: String,
}

impl Answer {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let head = String::from_utf8_lossy(bytes);
        let head = head.split("\r\n\r\n").next()?.to_owned();
        let status = head
            .strip_prefix("HTTP/1.")?
            .split(' ')
            .nth(1)?
            .parse()
            .ok()?;
        Some(Self { status, head })
    }

    fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self
            .head
            .lines()
            .skip(1)
            .filter_map(|line| line.split_once(':'));
        headers
            .find(|(key, _)| key.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.trim())
    }
}

/// Sends an HTTP request to a port of `localhost`.
fn request(port: u16, method: &str, path: &str) -> io::Result<Answer> {
    let deadline = Instant::now() + REQUEST_TIMEOUT;
    let mut stream = connect(port)?;
    stream.set_write_timeout(Some(REQUEST_TIMEOUT))?;
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost:{port}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes())?;
    let bytes = read_head(&mut stream, deadline)?;
    Answer::parse(&bytes)
        .ok_or_else(|| io::Error::other(format!("port {port} does not speak HTTP")))
}

/// Connects to the first address that accepts. If none does, the error is that of the first address, since the pod may
/// not have the second one.
fn connect(port: u16) -> io::Result<TcpStream> {
    let [first, second] = LOCALHOST.map(|address| {
        move || TcpStream::connect_timeout(&(address, port).into(), REQUEST_TIMEOUT)
    });
    first().or_else(|error| second().map_err(|_| error))
}

/// Reads until the end of the answer's head.
fn read_head(stream: &mut TcpStream, deadline: Instant) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 1024];
    while bytes.len() < MAX_ANSWER_BYTES && !bytes.windows(4).any(|window| window == b"\r\n\r\n") {
        let remaining = deadline.saturating_duration_since(Instant::now());
        if remaining.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(remaining))?;
        match stream.read(&mut buffer)? {
            0 => break,
            count => bytes.extend_from_slice(&buffer[..count]),
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests;
