//! Ends Istio's sidecar proxy, which otherwise keeps the pod running.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpStream};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::json_log_lines;

/// `localhost`, of which a pod may have one family only.
const LOCALHOST: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::LOCALHOST),
    IpAddr::V6(Ipv6Addr::LOCALHOST),
];
const AGENT_PORT: u16 = 15020;
const HEALTH_PORT: u16 = 15021;
/// Time limit for one request and its answer.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);
/// A proxy that is just starting resets connections or answers 503.
const PAUSES: [Duration; 3] = [
    Duration::from_millis(50),
    Duration::from_millis(250),
    Duration::from_millis(1250),
];
/// The most that is read of an answer, in bytes.
const MAX_ANSWER: usize = 16 * 1024;

/// Asks the proxy to quit, if there is one.
pub(crate) fn end() {
    Proxy {
        health: HEALTH_PORT,
        agent: AGENT_PORT,
    }
    .end();
}

struct Proxy {
    health: u16,
    agent: u16,
}

impl Proxy {
    fn end(&self) {
        if !self.is_present() {
            return;
        }
        if let Err(error) = retry(is_busy, || self.quit()) {
            json_log_lines::error(&format!(
                "all attempts to terminate istio-proxy failed: {error}"
            ));
        }
    }

    /// Whether Envoy answers. A refused connection is not retried, so that a pod without a proxy does not wait.
    fn is_present(&self) -> bool {
        let is_reset = |error: &io::Error| error.kind() == io::ErrorKind::ConnectionReset;
        let answer = retry(is_reset, || request(self.health, "GET", "/healthz/ready"));
        answer.is_ok_and(|answer| {
            answer
                .header("server")
                .is_some_and(|server| server == "envoy")
        })
    }

    fn quit(&self) -> io::Result<()> {
        match request(self.agent, "POST", "/quitquitquit")?.status {
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
    for pause in PAUSES {
        match attempt() {
            Err(error) if is_retryable(&error) => sleep(pause),
            result => return result,
        }
    }
    attempt()
}

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

/// The first address that accepts; else the error of the first one, since the other may not exist.
fn connect(port: u16) -> io::Result<TcpStream> {
    let [first, second] = LOCALHOST.map(|address| {
        move || TcpStream::connect_timeout(&(address, port).into(), REQUEST_TIMEOUT)
    });
    first().or_else(|error| second().map_err(|_| error))
}

fn read_head(stream: &mut TcpStream, deadline: Instant) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 1024];
    while bytes.len() < MAX_ANSWER && !bytes.windows(4).any(|window| window == b"\r\n\r\n") {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut buffer)? {
            0 => break,
            count => bytes.extend_from_slice(&buffer[..count]),
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::net::TcpListener;
    use std::thread::{JoinHandle, spawn};

    use super::*;

    /// Answers each connection with the next of `answers`; returns the requests' first lines.
    fn server(answers: &'static [&'static str]) -> (u16, JoinHandle<Vec<String>>) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        serve(listener, answers)
    }

    fn serve(
        listener: TcpListener,
        answers: &'static [&'static str],
    ) -> (u16, JoinHandle<Vec<String>>) {
        let port = listener.local_addr().unwrap().port();
        let serve = move |answer: &&str| {
            let (mut stream, _) = listener.accept().unwrap();
            let mut bytes = [0; 1024];
            let count = stream.read(&mut bytes).unwrap();
            stream.write_all(answer.as_bytes()).unwrap();
            String::from_utf8_lossy(&bytes[..count])
                .lines()
                .next()
                .unwrap()
                .to_owned()
        };
        (port, spawn(move || answers.iter().map(serve).collect()))
    }

    const ENVOY: &str = "HTTP/1.1 200 OK\r\nServer: envoy\r\nContent-Length: 0\r\n\r\n";

    #[test]
    fn quit_is_repeated_until_the_proxy_accepts() {
        let (health, health_requests) = server(&[ENVOY]);
        let (agent, quit_requests) = server(&[
            "HTTP/1.1 503 Service Unavailable\r\n\r\n",
            "HTTP/1.1 200 OK\r\n\r\n",
        ]);
        Proxy { health, agent }.end();
        assert_eq!(
            health_requests.join().unwrap(),
            ["GET /healthz/ready HTTP/1.1"]
        );
        assert_eq!(
            quit_requests.join().unwrap(),
            ["POST /quitquitquit HTTP/1.1"; 2]
        );
    }

    #[test]
    fn proxy_of_a_pod_without_ipv4_is_asked_to_quit() {
        let bind = || TcpListener::bind((Ipv6Addr::LOCALHOST, 0));
        let (Ok(health), Ok(agent)) = (bind(), bind()) else {
            let line = "*** NOT TESTED: a proxy without IPv4: this machine lacks IPv6 ***\n";
            return io::stderr().write_all(line.as_bytes()).unwrap();
        };
        let (health, health_requests) = serve(health, &[ENVOY]);
        let (agent, quit_requests) = serve(agent, &["HTTP/1.1 200 OK\r\n\r\n"]);
        Proxy { health, agent }.end();
        assert_eq!(health_requests.join().unwrap().len(), 1);
        assert_eq!(
            quit_requests.join().unwrap(),
            ["POST /quitquitquit HTTP/1.1"]
        );
    }

    #[test]
    fn other_servers_are_not_taken_for_istios_proxy() {
        for answer in [
            &["HTTP/1.1 200 OK\r\nServer: nginx\r\n\r\n"],
            &["nonsense"],
            &[""],
        ] {
            let (health, health_requests) = server(answer);
            let proxy = Proxy { health, agent: 1 };
            assert!(!proxy.is_present(), "{answer:?}");
            health_requests.join().unwrap();
        }
    }

    #[test]
    fn refused_connection_means_no_proxy_without_retry() {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let start = Instant::now();
        assert!(
            !Proxy {
                health: port,
                agent: port
            }
            .is_present()
        );
        assert!(start.elapsed() < PAUSES[0], "{:?}", start.elapsed());
    }
}
