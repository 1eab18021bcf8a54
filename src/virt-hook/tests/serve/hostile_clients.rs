//! Clients that share the socket with a launcher, and take as much of the sidecar as they can.

#![allow(clippy::print_stdout, reason = "measurements are printed")]

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures_util::future::join_all;
use prost::Message;
use proto::hooks::v1alpha3;
use tests::raw_http2_client::{
    ACK, CONTINUATION, END_HEADERS, HEADERS, INITIAL_WINDOW_SIZE, PING, RST_STREAM, RawHttp2Client,
    SETTINGS, frame, grpc_message, request_headers, streams, unfinished_requests,
};
use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;
use tokio::time::timeout;

use crate::example_modules::example;
use crate::handwritten_module::editing_module;
use crate::served_sidecar::{Pod, RunningServe, TEST_TIMEOUT, XML, stock_launcher_client, vmi};

const DEFINE: &str = "/kubevirt.hooks.v1alpha3.Callbacks/OnDefineDomain";
/// How often the same is done to the process.
const ATTEMPTS: usize = 4;
/// What a client that reads nothing may cost.
const CLIENT_BYTES: u64 = 8_000_000;
/// What all clients together may cost: the limit of messages, and 128 connections.
const ALL_CLIENTS_BYTES: u64 = 28_000_000;

/// A module that is compiled at once, in a directory of the test.
fn module(pod: &Pod) -> PathBuf {
    let path = pod.root().join("titled.wasm");
    let content = editing_module(&["/domain/title"], "<os/>", "<title>x</title><os/>");
    fs::write(&path, content).unwrap();
    path
}

/// Numbers and values.
type Settings = &'static [(u16, u32)];

/// What a client does after the preface, and then reads nothing.
enum Attack {
    /// Sends bytes, without regard to the server's windows.
    Bytes(Vec<u8>),
    /// Sends this body on so many requests, as the server's windows allow, and ends them if they are complete.
    Bodies {
        count: u32,
        body: Vec<u8>,
        is_complete: bool,
    },
}

impl Attack {
    async fn run(&self, socket: &Path, settings: &[(u16, u32)]) -> RawHttp2Client {
        let mut client = RawHttp2Client::connect(socket, settings).await.unwrap();
        match self {
            Attack::Bytes(bytes) => {
                client.send(bytes).await;
            }
            Attack::Bodies {
                count,
                body,
                is_complete,
            } => {
                let headers = request_headers(DEFINE, "localhost");
                let sent = client.send_bodies(*count, &headers, body, *is_complete);
                let sent = sent.await;
                assert!(sent > 300_000, "the server takes {sent} bytes only");
            }
        }
        client
    }
}

fn bodies(count: u32, bytes: usize, is_complete: bool) -> Attack {
    let mut body = define_message(bytes);
    body.truncate(body.len() - usize::from(!is_complete));
    Attack::Bodies {
        count,
        body,
        is_complete,
    }
}

/// OnDefineDomain with a domain of `bytes` bytes.
fn define_message(bytes: usize) -> Vec<u8> {
    let padding = format!("<!--{}--></domain>", "x".repeat(bytes - XML.len()));
    let params = v1alpha3::OnDefineDomainParams {
        domain_xml: XML.replace("</domain>", &padding).into_bytes(),
        vmi: vmi().into_bytes(),
    };
    grpc_message(&params.encode_to_vec())
}

/// Names, numbers of connections, settings of the clients, and what they do.
fn attacks() -> Vec<(&'static str, u64, Settings, Attack)> {
    let headers = request_headers(DEFINE, "localhost");
    let flood = || Attack::Bytes(unfinished_requests(20_000, DEFINE));
    let repeated = |frame: Vec<u8>| Attack::Bytes(frame.repeat(40_000));
    let resets = streams(10_000).map(|stream| {
        let begin = frame(HEADERS, END_HEADERS, stream, &headers);
        [begin, frame(RST_STREAM, 0, stream, &[0, 0, 0, 8])].concat()
    });
    let large_header = [&[0, 1, b'a', 127, 0x81, 0x01][..], &[b'v'; 256]].concat();
    let endless_headers = [
        frame(HEADERS, 0, 1, &headers),
        frame(CONTINUATION, 0, 1, &large_header.repeat(60)).repeat(500),
    ];
    vec![
        ("20,000 requests without an end", 1, &[], flood()),
        ("20,000 requests without an end each", 20, &[], flood()),
        (
            "16 requests of 1 MB without an end",
            1,
            &[],
            bodies(16, 1 << 20, false),
        ),
        (
            "1 request of 4 MiB without an end each",
            20,
            &[],
            bodies(1, 4 << 20, false),
        ),
        (
            "16 answers of 400 kB that are not read",
            1,
            &[(INITIAL_WINDOW_SIZE, 0)],
            bodies(16, 400_000, true),
        ),
        (
            "requests that are reset at once",
            1,
            &[],
            Attack::Bytes(resets.collect::<Vec<_>>().concat()),
        ),
        (
            "headers without an end",
            1,
            &[],
            Attack::Bytes(endless_headers.concat()),
        ),
        ("pings", 1, &[], repeated(frame(PING, 0, 0, &[7; 8]))),
        ("settings", 1, &[], repeated(frame(SETTINGS, 0, 0, &[]))),
        (
            "acknowledgements",
            1,
            &[],
            repeated(frame(PING, ACK, 0, &[7; 8])),
        ),
    ]
}

/// A value of `/proc/PID/status` in bytes.
fn memory(served: &RunningServe, name: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", served.pid())).unwrap();
    let line = status.lines().find(|line| line.starts_with(name)).unwrap();
    let kilobytes = line.split_whitespace().nth(1).unwrap();
    1024 * kilobytes.parse::<u64>().unwrap()
}

async fn info_is_answered(socket: &Path) {
    let info = timeout(TEST_TIMEOUT, stock_launcher_client::info(socket)).await;
    info.expect("Info is answered").unwrap();
}

#[tokio::test]
async fn client_that_reads_nothing_costs_at_most_8_mb_which_are_given_back() {
    let pod = Pod::new();
    let mut served = pod.serve(&[&example("smbios-hook")], &[]);
    served.wait_until_ready().await;
    served.drop_stderr();
    // What the first calls cost belongs to none of the clients.
    for _ in 0..2 {
        drop(bodies(1, 4 << 20, true).run(&pod.socket(), &[]).await);
        info_is_answered(&pod.socket()).await;
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    for (name, connections, settings, attack) in attacks() {
        let allowed = ALL_CLIENTS_BYTES.min(CLIENT_BYTES * connections);
        let before = memory(&served, "VmRSS:") - memory(&served, "RssFile:");
        // The allocator may keep what attempts have cost, which varies with how the requests meet. The last one must not
        // add to it.
        let mut costs = Vec::new();
        for _ in 0..ATTEMPTS {
            fs::write(format!("/proc/{}/clear_refs", served.pid()), "5").unwrap();
            let socket = pod.socket();
            let clients = (0..connections).map(|_| attack.run(&socket, settings));
            let clients = join_all(clients).await;
            info_is_answered(&socket).await;
            tokio::time::sleep(Duration::from_millis(500)).await;
            // Pages of the program's own file are read from the disk as they are needed. They only grow.
            let others = memory(&served, "RssFile:") + before;
            costs.push(memory(&served, "VmHWM:").saturating_sub(others));
            drop(clients);
            info_is_answered(&socket).await;
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        println!("{name}: on {connections} connections {costs:?} bytes");
        let last = costs.pop().unwrap_or_default();
        let most = costs.into_iter().max().unwrap_or_default();
        assert!(most <= allowed, "{name}: {most} bytes");
        let added = last.saturating_sub(most);
        assert!(
            added <= CLIENT_BYTES / 2,
            "{name}: {most} bytes, then {last}"
        );
    }
    served.terminate();
    served.wait_for_end(0).await;
}

/// Raises this process's limit of open files.
fn allow_thousands_of_files() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).unwrap();
}

#[tokio::test]
async fn thousand_idle_clients_lock_nobody_out() {
    allow_thousands_of_files();
    let pod = Pod::new();
    let mut served = pod.serve(&[&module(&pod)], &[]);
    served.wait_until_ready().await;
    let channel = stock_launcher_client::dial(&pod.socket()).await;
    let mut existing = proto::hooks::info::info_client::InfoClient::new(channel);
    existing
        .info(proto::hooks::info::InfoParams {})
        .await
        .unwrap();
    let mut idle = Vec::new();
    for index in 0..1000 {
        let stream = match index % 2 {
            0 => UnixStream::connect(pod.socket()).await.unwrap(),
            _ => {
                RawHttp2Client::connect(&pod.socket(), &[])
                    .await
                    .unwrap()
                    .stream
            }
        };
        idle.push(stream);
    }
    info_is_answered(&pod.socket()).await;
    // A client whose connection was closed connects again.
    let info = existing.info(proto::hooks::info::InfoParams {});
    timeout(TEST_TIMEOUT, info).await.unwrap().unwrap();
    // The first are closed, the last are not. A server of HTTP/2 sends its settings first.
    let (mut byte, mut rest) = ([0; 1], Vec::new());
    let closed = timeout(TEST_TIMEOUT, idle[0].read_to_end(&mut rest)).await;
    drop(closed.expect("the first is closed"));
    let last = idle.last_mut().unwrap();
    assert!(
        timeout(TEST_TIMEOUT, last.read(&mut byte))
            .await
            .unwrap()
            .unwrap()
            > 0
    );
    served.terminate();
    let stderr = served.wait_for_exit(0).await;
    assert!(
        stderr.contains("those that were idle longest are closed"),
        "{stderr}"
    );
}

#[tokio::test]
async fn sigterm_ends_the_program_although_clients_hold_calls_open() {
    for arguments in [&[][..], &["--plugin", "p"]] {
        for connections in [3, 20] {
            let pod = Pod::new();
            let mut served = pod.serve(&[&module(&pod)], arguments);
            served.wait_until_ready().await;
            let socket = pod.directory().join(&pod.files()[0]);
            let mut clients = Vec::new();
            for _ in 0..connections {
                // More than a client may have open, and fewer.
                for requests in [2_000, 8] {
                    let mut client = RawHttp2Client::connect(&socket, &[]).await.unwrap();
                    client.send(&unfinished_requests(requests, DEFINE)).await;
                    clients.push(client);
                }
            }
            served.terminate();
            served.wait_for_exit(0).await;
            assert!(pod.files().is_empty());
        }
    }
}
