//! Clients that share the socket with a launcher, and take as much of the sidecar as they can.

#![allow(clippy::print_stdout, reason = "measurements are printed")]

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use prost::Message;
use proto::hooks::v1alpha3;
use tests::raw_http2_client::{
    ACK, CONTINUATION, DATA, END_HEADERS, END_STREAM, HEADERS, INITIAL_WINDOW_SIZE, PING,
    RST_STREAM, RawHttp2Client, SETTINGS, frame, grpc_message, request_headers,
};
use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;
use tokio::time::timeout;

use crate::example_modules::example;
use crate::handwritten_module::editing_module;
use crate::served_sidecar::{Pod, RunningServe, TEST_TIMEOUT, XML, stock_launcher_client, vmi};

const DEFINE: &str = "/kubevirt.hooks.v1alpha3.Callbacks/OnDefineDomain";
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

/// What a client sends after the preface, and then reads nothing.
struct Attack {
    name: &'static str,
    connections: usize,
    settings: &'static [(u16, u32)],
    pieces: Vec<Vec<u8>>,
}

fn attack(name: &'static str, connections: usize, pieces: Vec<Vec<u8>>) -> Attack {
    Attack {
        name,
        connections,
        settings: &[],
        pieces,
    }
}

/// The numbers of the streams that a client may open.
fn streams(count: u32) -> impl Iterator<Item = u32> {
    (0..count).map(|index| 2 * index + 1)
}

/// Requests that never end.
fn unfinished_requests(count: u32) -> Vec<u8> {
    let headers = request_headers(DEFINE, "localhost");
    let frames = streams(count).map(|stream| frame(HEADERS, END_HEADERS, stream, &headers));
    frames.collect::<Vec<_>>().concat()
}

/// The pieces of the body of a request.
fn data(stream: u32, body: &[u8], is_complete: bool) -> Vec<Vec<u8>> {
    let chunks = body.chunks(16 << 10).enumerate();
    let last = body.len().div_ceil(16 << 10) - 1;
    chunks
        .map(|(index, chunk)| {
            let flags = if is_complete && index == last {
                END_STREAM
            } else {
                0
            };
            frame(DATA, flags, stream, chunk)
        })
        .collect()
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

fn attacks() -> Vec<Attack> {
    let headers = request_headers(DEFINE, "localhost");
    let begin = |stream| frame(HEADERS, END_HEADERS, stream, &headers);
    let flood = vec![unfinished_requests(20_000)];
    let bodies = |count: u32, bytes: usize, is_complete: bool| {
        let message = define_message(bytes);
        let sent = if is_complete {
            message.len()
        } else {
            message.len() - 1
        };
        let requests = streams(count).flat_map(|stream| {
            let body = data(stream, &message[..sent], is_complete);
            std::iter::once(begin(stream)).chain(body)
        });
        requests.collect::<Vec<_>>()
    };
    let repeated = |frame: Vec<u8>, count: usize| vec![frame.repeat(count)];
    let resets = streams(10_000)
        .map(|stream| [begin(stream), frame(RST_STREAM, 0, stream, &[0, 0, 0, 8])].concat());
    let endless_headers = [
        frame(HEADERS, 0, 1, &headers),
        frame(
            CONTINUATION,
            0,
            1,
            &[&[0, 1, b'a', 127, 0x81, 0x01][..], &[b'v'; 256]]
                .concat()
                .repeat(60),
        )
        .repeat(500),
    ];
    vec![
        attack("20,000 requests without an end", 1, flood.clone()),
        attack("20,000 requests without an end each", 20, flood),
        attack(
            "16 requests of 1 MB without an end",
            1,
            bodies(16, 1 << 20, false),
        ),
        attack(
            "1 request of 4 MiB without an end each",
            20,
            bodies(1, 4 << 20, false),
        ),
        Attack {
            settings: &[(INITIAL_WINDOW_SIZE, 0)],
            ..attack(
                "16 answers of 400 kB that are not read",
                1,
                bodies(16, 400_000, true),
            )
        },
        attack(
            "requests that are reset at once",
            1,
            vec![resets.collect::<Vec<_>>().concat()],
        ),
        attack("headers without an end", 1, endless_headers.to_vec()),
        attack("pings", 1, repeated(frame(PING, 0, 0, &[7; 8]), 40_000)),
        attack("settings", 1, repeated(frame(SETTINGS, 0, 0, &[]), 40_000)),
        attack(
            "acknowledgements",
            1,
            repeated(frame(PING, ACK, 0, &[7; 8]), 40_000),
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

async fn info_is_answered(socket: &Path) -> Duration {
    let begun = Instant::now();
    let info = timeout(TEST_TIMEOUT, stock_launcher_client::info(socket)).await;
    info.expect("Info is answered").unwrap();
    begun.elapsed()
}

#[tokio::test]
async fn client_that_reads_nothing_costs_at_most_8_mb_which_are_given_back() {
    let pod = Pod::new();
    let mut served = pod.serve(&[&example("smbios-hook")], &[]);
    served.wait_until_ready().await;
    served.drop_stderr();
    // What the first calls cost belongs to none of the clients.
    for _ in 0..2 {
        let mut client = RawHttp2Client::connect(&pod.socket(), &[]).await.unwrap();
        let message = define_message(4 << 20);
        client
            .send(&frame(
                HEADERS,
                END_HEADERS,
                1,
                &request_headers(DEFINE, "a"),
            ))
            .await;
        for piece in data(1, &message, true) {
            client.send(&piece).await;
            tokio::task::yield_now().await;
        }
        info_is_answered(&pod.socket()).await;
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    for attack in attacks() {
        let before = memory(&served, "VmRSS:");
        fs::write(format!("/proc/{}/clear_refs", served.pid()), "5").unwrap();
        let mut clients = Vec::new();
        for _ in 0..attack.connections {
            let socket = pod.socket();
            let mut client = RawHttp2Client::connect(&socket, attack.settings)
                .await
                .unwrap();
            for piece in &attack.pieces {
                if client.send(piece).await < piece.len() {
                    break;
                }
                if attack.pieces.len() > 2 {
                    // The server extends the client's window when it has read the piece.
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            }
            clients.push(client);
        }
        let answered_after = info_is_answered(&pod.socket()).await;
        tokio::time::sleep(Duration::from_millis(500)).await;
        let cost = memory(&served, "VmHWM:").saturating_sub(before);
        drop(clients);
        let mut kept = u64::MAX;
        for _ in 0..100 {
            kept = memory(&served, "VmRSS:").saturating_sub(before);
            if kept < CLIENT_BYTES / 4 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        println!(
            "{}: on {} connections {cost} bytes, then {kept}; Info answered after {answered_after:?}",
            attack.name, attack.connections
        );
        let allowed = ALL_CLIENTS_BYTES.min(CLIENT_BYTES * attack.connections as u64);
        assert!(cost <= allowed, "{}: {cost} bytes", attack.name);
        assert!(kept <= CLIENT_BYTES, "{}: {kept} bytes stay", attack.name);
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
    let answered_after = info_is_answered(&pod.socket()).await;
    let begun = Instant::now();
    // A client whose connection was closed connects again.
    let info = existing.info(proto::hooks::info::InfoParams {});
    timeout(TEST_TIMEOUT, info).await.unwrap().unwrap();
    println!(
        "with 1000 idle clients, a new one is answered after {answered_after:?}, an old one after {:?}",
        begun.elapsed()
    );
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
                    client.send(&unfinished_requests(requests)).await;
                    clients.push(client);
                }
            }
            let begun = Instant::now();
            served.terminate();
            served.wait_for_exit(0).await;
            println!(
                "{arguments:?}, {connections} clients: ended after {:?}",
                begun.elapsed()
            );
            assert!(pod.files().is_empty());
        }
    }
}
