//! Clients of the command socket that take as much of the launcher as they can.

#![allow(clippy::print_stdout, reason = "measurements are printed")]

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use proto::cmd::v1::EmptyRequest;
use tests::raw_http2_client::{
    DATA, END_HEADERS, END_STREAM, HEADERS, INITIAL_WINDOW_SIZE, RawHttp2Client, frame,
    grpc_message, request_headers,
};
use tokio::net::UnixStream;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use virt_launcher::Config;
use virt_launcher::process_lifecycle::run_composed;

use crate::support::command_client::client;
use crate::support::test_launcher::TestLauncher;

const SYNC: &str = "/kubevirt.cmd.v1.Cmd/SyncVirtualMachine";
const PING: &str = "/kubevirt.cmd.v1.Cmd/Ping";
/// What a client that reads nothing may cost.
const CLIENT_BYTES: u64 = 8_000_000;
/// What all clients together may cost: the limit of messages, and 128 connections.
const ALL_CLIENTS_BYTES: u64 = 28_000_000;
/// A call is answered in less than a second; on a busy machine a debug build takes longer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// The end is reached in less than two seconds.
const END_TIMEOUT: Duration = Duration::from_secs(5);
/// Set in the process that measures its own memory.
const OWN_PROCESS: &str = "TEST_OF_MEMORY_IN_ITS_OWN_PROCESS";

fn streams(count: u32) -> impl Iterator<Item = u32> {
    (0..count).map(|index| 2 * index + 1)
}

/// Requests that never end.
fn unfinished_requests(count: u32) -> Vec<u8> {
    let headers = request_headers(SYNC, "localhost");
    let frames = streams(count).map(|stream| frame(HEADERS, END_HEADERS, stream, &headers));
    frames.collect::<Vec<_>>().concat()
}

/// Requests that announce 5 MiB and send 1 MiB.
fn unfinished_bodies(count: u32) -> Vec<u8> {
    let headers = request_headers(SYNC, "localhost");
    let message = grpc_message(&vec![b'x'; 5 << 20]);
    let request = |stream| {
        let begin = frame(HEADERS, END_HEADERS, stream, &headers);
        let body = message[..1 << 20].chunks(16 << 10);
        let body = body.map(|chunk| frame(DATA, 0, stream, chunk));
        std::iter::once(begin)
            .chain(body)
            .collect::<Vec<_>>()
            .concat()
    };
    streams(count).map(request).collect::<Vec<_>>().concat()
}

/// Finished requests, whose answers the client does not let come.
fn pings(count: u32) -> Vec<u8> {
    let headers = request_headers(PING, "localhost");
    let request = |stream| {
        let body = frame(DATA, END_STREAM, stream, &grpc_message(&[]));
        [frame(HEADERS, END_HEADERS, stream, &headers), body].concat()
    };
    streams(count).map(request).collect::<Vec<_>>().concat()
}

/// A value of `/proc/self/status` in bytes.
fn memory(name: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(name)).unwrap();
    1024 * line
        .split_whitespace()
        .nth(1)
        .unwrap()
        .parse::<u64>()
        .unwrap()
}

async fn ping_is_answered(launcher: &TestLauncher) -> Duration {
    let begun = Instant::now();
    let ping = async { client(launcher).await.ping(EmptyRequest {}).await };
    let answer = timeout(ANSWER_TIMEOUT, ping).await;
    answer.expect("Ping is answered").unwrap();
    begun.elapsed()
}

/// Sends bytes at the speed at which the server extends the client's windows, and reads nothing.
async fn send(socket: &Path, settings: &[(u16, u32)], bytes: &[u8]) -> RawHttp2Client {
    let mut client = RawHttp2Client::connect(socket, settings).await.unwrap();
    for piece in bytes.chunks(64 << 10) {
        if client.send(piece).await < piece.len() {
            break;
        }
        sleep(Duration::from_millis(2)).await;
    }
    client
}

/// Other tests run in this process, so the launcher is measured in a process of its own, which runs this test alone.
#[test]
fn client_that_reads_nothing_costs_at_most_8_mb_which_are_given_back() {
    if std::env::var_os(OWN_PROCESS).is_some() {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build();
        return runtime
            .unwrap()
            .block_on(measure_clients_that_read_nothing());
    }
    let this_test = concat!(
        "hostile_command_clients::",
        "client_that_reads_nothing_costs_at_most_8_mb_which_are_given_back"
    );
    let mut measuring = Command::new(std::env::current_exe().unwrap());
    measuring.args(["--exact", this_test, "--nocapture"]);
    let output = measuring.env(OWN_PROCESS, "1").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    println!("{text}");
    assert!(
        output.status.success(),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(text.contains("1 passed"), "{text}");
}

async fn measure_clients_that_read_nothing() {
    let launcher = TestLauncher::new().await;
    let socket = launcher.paths.ready_socket();
    let window_0 = &[(INITIAL_WINDOW_SIZE, 0)][..];
    let attacks = [
        (
            "20,000 requests without an end",
            1,
            &[][..],
            unfinished_requests(20_000),
        ),
        (
            "20,000 requests without an end each",
            20,
            &[],
            unfinished_requests(20_000),
        ),
        (
            "64 requests of 1 MiB without an end",
            1,
            &[],
            unfinished_bodies(64),
        ),
        (
            "6 requests of 1 MiB without an end each",
            20,
            &[],
            unfinished_bodies(6),
        ),
        ("64 answers that are not read", 1, window_0, pings(64)),
    ];
    // What the first calls cost belongs to none of the clients.
    drop(send(&socket, &[], &unfinished_bodies(6)).await);
    ping_is_answered(&launcher).await;
    sleep(Duration::from_secs(1)).await;
    for (name, connections, settings, bytes) in attacks {
        let before = memory("VmRSS:");
        fs::write("/proc/self/clear_refs", "5").unwrap();
        let mut clients = Vec::new();
        for _ in 0..connections {
            clients.push(send(&socket, settings, &bytes).await);
        }
        let answered_after = ping_is_answered(&launcher).await;
        sleep(Duration::from_millis(500)).await;
        let cost = memory("VmHWM:").saturating_sub(before);
        drop(clients);
        let mut kept = u64::MAX;
        for _ in 0..100 {
            kept = memory("VmRSS:").saturating_sub(before);
            if kept < CLIENT_BYTES / 4 {
                break;
            }
            sleep(Duration::from_millis(50)).await;
        }
        println!(
            "{name}: on {connections} connections {cost} bytes, then {kept}; Ping answered after {answered_after:?}"
        );
        let allowed = ALL_CLIENTS_BYTES.min(CLIENT_BYTES * connections);
        assert!(cost <= allowed, "{name}: {cost} bytes");
        assert!(kept <= CLIENT_BYTES, "{name}: {kept} bytes stay");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn thousand_idle_clients_lock_nobody_out() {
    allow_thousands_of_files();
    let launcher = TestLauncher::new().await;
    let socket = launcher.paths.ready_socket();
    let mut existing = client(&launcher).await;
    existing.ping(EmptyRequest {}).await.unwrap();
    let mut idle = Vec::new();
    for index in 0..1000 {
        let stream = match index % 2 {
            0 => UnixStream::connect(&socket).await.unwrap(),
            _ => RawHttp2Client::connect(&socket, &[]).await.unwrap().stream,
        };
        idle.push(stream);
    }
    let answered_after = ping_is_answered(&launcher).await;
    let begun = Instant::now();
    // A client whose connection was closed connects again.
    let ping = timeout(ANSWER_TIMEOUT, existing.ping(EmptyRequest {}));
    ping.await.unwrap().unwrap();
    println!(
        "with 1000 idle clients, a new one is answered after {answered_after:?}, an old one after {:?}",
        begun.elapsed()
    );
}

/// Raises this process's limit of open files.
fn allow_thousands_of_files() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn launcher_ends_although_clients_hold_calls_open() {
    let launcher = TestLauncher::new().await;
    let socket = launcher.paths.ready_socket();
    let mut clients = Vec::new();
    for _ in 0..3 {
        clients.push(send(&socket, &[], &unfinished_requests(20_000)).await);
        clients.push(send(&socket, &[], &unfinished_requests(8)).await);
    }
    let config = Config::from_parts(["virt-launcher"], |_| None, Path::new("/nonexistent"));
    let config = Config {
        paths: launcher.paths.clone(),
        ..config.unwrap()
    };
    let (signal, receiver) = watch::channel(false);
    let run = tokio::spawn(async move { run_composed(launcher.running, &config, receiver).await });
    let begun = Instant::now();
    signal.send_replace(true);
    let ended = timeout(END_TIMEOUT, run).await;
    ended.expect("the launcher ends").unwrap().unwrap();
    println!("the launcher ended after {:?}", begun.elapsed());
    assert!(!socket.exists());
    drop(clients);
}
