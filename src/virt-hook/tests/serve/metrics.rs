//! `virt-hook serve --metrics` scraped as Prometheus does, and by hostile clients.

use std::net::SocketAddr;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use crate::example_modules::{example, hook_at_every_point};
use crate::prometheus_parser::Exposition;
use crate::served_sidecar::{
    Pod, RunningServe, TEST_TIMEOUT, XML, stock_launcher_client, vmi, vmi_that_does,
};
use proto::hooks::v1alpha3;

/// The address in the log, and the rest of the log, which ends with the program. It is read at once, so that the pipe never
/// fills.
async fn address_and_log(served: &mut RunningServe) -> (SocketAddr, JoinHandle<String>) {
    let mut lines = BufReader::new(served.child.stderr.take().unwrap()).lines();
    let address = async {
        loop {
            let line = lines.next_line().await.unwrap().unwrap();
            let line = String::from_utf8(strip_ansi(line.as_bytes())).unwrap();
            if line.contains("metrics are served") {
                let (_, address) = line.split_once("address=").unwrap();
                return address.split_whitespace().next().unwrap().parse().unwrap();
            }
        }
    };
    let address = tokio::time::timeout(TEST_TIMEOUT, address).await.unwrap();
    let rest = tokio::spawn(async move {
        let mut rest = String::new();
        while let Ok(Some(line)) = lines.next_line().await {
            rest += &format!("{line}\n");
        }
        rest
    });
    (address, rest)
}

fn strip_ansi(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut bytes = text.iter();
    while let Some(byte) = bytes.next() {
        if *byte == 0x1b {
            bytes.by_ref().find(|byte| byte.is_ascii_alphabetic());
        } else {
            out.push(*byte);
        }
    }
    out
}

/// Sends a request and reads the answer to its end.
async fn request(address: SocketAddr, bytes: &[u8]) -> String {
    let exchange = async {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    };
    tokio::time::timeout(TEST_TIMEOUT, exchange).await.unwrap()
}

async fn scrape(address: SocketAddr) -> Exposition {
    let answer = request(address, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").await;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert!(head.contains("text/plain; version=0.0.4"), "{head}");
    Exposition::parse(body).unwrap_or_else(|error| panic!("{error} in:\n{body}"))
}

async fn define(pod: &Pod, vmi: String) -> bool {
    let channel = stock_launcher_client::dial(&pod.socket()).await;
    let mut client = v1alpha3::callbacks_client::CallbacksClient::new(channel);
    let params = v1alpha3::OnDefineDomainParams {
        domain_xml: XML.as_bytes().to_vec(),
        vmi: vmi.into_bytes(),
    };
    client.on_define_domain(params).await.is_ok()
}

#[tokio::test]
async fn metrics_have_calls_outcomes_and_durations() {
    let pod = Pod::new();
    let mut served = pod.serve(&[&hook_at_every_point()], &["--metrics", "127.0.0.1:0"]);
    let (address, _) = address_and_log(&mut served).await;
    served.wait_until_ready().await;
    let hook = ("hook", "hook_at_every_point");
    let calls = |metrics: &Exposition, point: &str, outcome: &str| {
        let labels = [hook, ("hook_point", point), ("outcome", outcome)];
        metrics.value("virt_hook_calls_total", &labels)
    };
    let before = scrape(address).await;
    assert_eq!(
        calls(&before, "OnDefineDomain", "ok"),
        Some(0.0),
        "{before:#?}"
    );
    let compile = before.value("virt_hook_compile_seconds", &[hook]);
    assert!(compile.unwrap() > 0.0, "{before:#?}");

    // At the first call PreStart agrees and OnDefineDomain lacks its configuration; at the second PreStart vetoes.
    assert!(!define(&pod, vmi()).await);
    assert!(!define(&pod, vmi_that_does("veto")).await);
    let after = scrape(address).await;
    for (point, outcome, count) in [
        ("PreStart", "ok", 1.0),
        ("PreStart", "veto", 1.0),
        ("OnDefineDomain", "ok", 0.0),
        ("OnDefineDomain", "failed", 1.0),
    ] {
        assert_eq!(calls(&after, point, outcome), Some(count), "{after:#?}");
    }
    let labels = [hook, ("hook_point", "PreStart")];
    let total = after.value("virt_hook_call_duration_seconds_sum", &labels);
    assert!(total.unwrap() > 0.0, "{after:#?}");
    served.terminate();
    assert_eq!(served.child.wait().await.unwrap().code(), Some(0));
}

#[tokio::test]
async fn the_log_ends_with_the_calls_of_each_hook() {
    let pod = Pod::new();
    let mut served = pod.serve(&[&example("smbios-hook"), &example("cloud-init-hook")], &[]);
    served.wait_until_ready().await;
    assert!(define(&pod, vmi()).await);
    served.terminate();
    let log = served.wait_for_exit(0).await;
    let log = String::from_utf8(strip_ansi(log.as_bytes())).unwrap();
    let lines = log.lines();
    let lines: Vec<_> = lines
        .filter(|line| line.contains("hook statistics"))
        .collect();
    assert_eq!(lines.len(), 2, "{log}");
    for (hook, calls) in [
        ("hook=\"1-smbios_hook\"", "hook_points=\"OnDefineDomain=1\""),
        ("hook=\"2-cloud_init_hook\"", "calls=0"),
    ] {
        let line = lines.iter().find(|line| line.contains(hook));
        let line = line.unwrap_or_else(|| panic!("{hook}: {log}"));
        assert!(line.contains(calls), "{line}");
        assert!(line.contains("phase=\"ended\""), "{line}");
    }
}

#[tokio::test]
async fn stalled_scrapers_do_not_stop_hooks_or_other_scrapers() {
    let pod = Pod::new();
    let mut served = pod.serve(&[&example("smbios-hook")], &["--metrics", "127.0.0.1:0"]);
    let (address, log) = address_and_log(&mut served).await;
    served.wait_until_ready().await;
    // More connections than are served at a time. Half of them send nothing, none completes its request.
    let mut slow = Vec::new();
    for index in 0..200 {
        let mut stream = TcpStream::connect(address).await.unwrap();
        if index % 2 == 0 {
            stream.write_all(b"GET /metrics HT").await.unwrap();
        }
        slow.push(stream);
    }
    assert!(define(&pod, vmi()).await, "hooks are called meanwhile");
    scrape(address).await;
    let closed = tokio::time::timeout(TEST_TIMEOUT, slow[0].read(&mut [0; 1])).await;
    assert!(matches!(closed.unwrap(), Ok(0) | Err(_)));
    drop(slow);
    for (bytes, status) in [
        (&b"POST /metrics HTTP/1.1\r\n\r\n"[..], "405"),
        (b"GET / HTTP/1.1\r\n\r\n", "404"),
        (b"GET /metrics/../x HTTP/1.1\r\n\r\n", "404"),
        (b"\0\xff\r\n\r\n", "400"),
        (b"GET /metrics HTTP/2.0\r\n\r\n", "400"),
        (&[b'x'; 8 << 10], "431"),
        (
            &[&b"GET /"[..], &[b'a'; 9000], b" HTTP/1.1\r\n\r\n"].concat(),
            "431",
        ),
    ] {
        let answer = request(address, bytes).await;
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")),
            "{answer}"
        );
        assert!(!answer.contains("virt_hook_"), "{answer}");
    }
    // A client that sends nothing is disconnected.
    let mut silent = TcpStream::connect(address).await.unwrap();
    let closed = tokio::time::timeout(TEST_TIMEOUT, silent.read(&mut [0; 1])).await;
    assert!(matches!(closed.unwrap(), Ok(0) | Err(_)));
    scrape(address).await;
    served.terminate();
    let status = tokio::time::timeout(TEST_TIMEOUT, served.child.wait()).await;
    assert_eq!(status.unwrap().unwrap().code(), Some(0));
    // The first of the stalled was closed to make room, and not only for its silence.
    let log = log.await.unwrap();
    assert!(
        log.contains("those that were idle longest are closed"),
        "{log}"
    );
}

#[tokio::test]
async fn an_address_in_use_is_a_usage_error_that_names_it() {
    let other_listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = other_listener.local_addr().unwrap().to_string();
    let pod = Pod::new();
    let served = pod.serve(&[&hook_at_every_point()], &["--metrics", &address]);
    let stderr = served.wait_for_exit(2).await;
    assert!(stderr.contains(&format!("--metrics {address}")), "{stderr}");
    assert_eq!(pod.files(), Vec::<String>::new());
}
