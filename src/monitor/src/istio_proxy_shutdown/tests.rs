//! Ending the proxy, against servers that answer as Istio's.
use std::net::TcpListener;
use std::thread::{JoinHandle, spawn};

use super::*;

/// A server that answers each connection with the next one of `answers`, and returns the first lines of the requests.
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
    let (health_port, health_requests) = server(&[ENVOY]);
    let (agent_port, quit_requests) = server(&[
        "HTTP/1.1 503 Service Unavailable\r\n\r\n",
        "HTTP/1.1 200 OK\r\n\r\n",
    ]);
    Proxy {
        health_port,
        agent_port,
    }
    .end();
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
fn proxy_in_a_pod_without_ipv4_is_ended() {
    let bind = || TcpListener::bind((Ipv6Addr::LOCALHOST, 0));
    let (Ok(health), Ok(agent)) = (bind(), bind()) else {
        let line = "*** NOT TESTED: a proxy without IPv4: this machine lacks IPv6 ***\n";
        return io::stderr().write_all(line.as_bytes()).unwrap();
    };
    let (health_port, health_requests) = serve(health, &[ENVOY]);
    let (agent_port, quit_requests) = serve(agent, &["HTTP/1.1 200 OK\r\n\r\n"]);
    Proxy {
        health_port,
        agent_port,
    }
    .end();
    assert_eq!(health_requests.join().unwrap().len(), 1);
    assert_eq!(
        quit_requests.join().unwrap(),
        ["POST /quitquitquit HTTP/1.1"]
    );
}

#[test]
fn servers_other_than_envoy_are_not_istios_proxy() {
    for answer in [
        &["HTTP/1.1 200 OK\r\nServer: nginx\r\n\r\n"],
        &["nonsense"],
        &[""],
    ] {
        let (health_port, health_requests) = server(answer);
        let proxy = Proxy {
            health_port,
            agent_port: 1,
        };
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
            health_port: port,
            agent_port: port
        }
        .is_present()
    );
    assert!(start.elapsed() < RETRY_PAUSES[0], "{:?}", start.elapsed());
}
