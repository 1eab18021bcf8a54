//! Clients of the command socket that take as much of the launcher as they can.

#![allow(clippy::print_stdout, reason = "measurements are printed")]

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::LazyLock;
use std::time::Duration;

use futures_util::future::join_all;
use libvirt::fake::Call;
use proto::cmd::v1::EmptyRequest;
use tests::raw_http2_client::{
    DATA, END_HEADERS, END_STREAM, HEADERS, INITIAL_WINDOW_SIZE, RawHttp2Client, frame,
    grpc_message, is_closed, request_headers, streams, unfinished_requests,
};
use tokio::net::UnixStream;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use virt_launcher::manager::Command as ManagerCommand;
use virt_launcher::process_lifecycle::run_composed;

use crate::support::command_client::client;
use crate::support::test_launcher::{TestLauncher, config, wait_for};

const SYNC: &str = "/kubevirt.cmd.v1.Cmd/SyncVirtualMachine";
const PING: &str = "/kubevirt.cmd.v1.Cmd/Ping";
/// What a client that reads nothing may cost.
const CLIENT_BYTES: u64 = 8_000_000;
/// What all clients together may cost: the limit of messages, and 128 connections.
const ALL_CLIENTS_BYTES: u64 = 28_000_000;
/// How often the same is done to the launcher.
const ATTEMPTS: usize = 4;
/// How long to wait for an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// How long to wait for the end.
const END_TIMEOUT: Duration = Duration::from_secs(5);
/// Set in the process that measures its own memory.
const OWN_PROCESS: &str = "TEST_OF_MEMORY_IN_ITS_OWN_PROCESS";

/// The first MiB of a request that announces 5 MiB.
static LARGE_BODY: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut body = vec![b'x'; 1 << 20];
    body[..5].copy_from_slice(&[0, 0, 0x50, 0, 0]);
    body
});

/// What a client does, and then reads nothing.
enum Attack {
    /// Sends bytes, without regard to the server's windows.
    Bytes(Vec<u8>),
    /// Opens so many requests, and sends [`LARGE_BODY`] on each.
    Bodies(u32),
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

async fn ping_is_answered(launcher: &TestLauncher) {
    let ping = async { client(launcher).await.ping(EmptyRequest {}).await };
    let answer = timeout(ANSWER_TIMEOUT, ping).await;
    answer.expect("Ping is answered").unwrap();
}

async fn send(socket: &Path, settings: &[(u16, u32)], attack: &Attack) -> RawHttp2Client {
    let mut client = RawHttp2Client::connect(socket, settings).await.unwrap();
    match attack {
        Attack::Bytes(bytes) => {
            client.send(bytes).await;
        }
        Attack::Bodies(count) => {
            let headers = request_headers(SYNC, "localhost");
            let sent = client
                .send_bodies(*count, &headers, &LARGE_BODY, false)
                .await;
            assert!(sent > 300_000, "the server takes {sent} bytes only");
        }
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
    let window_0 = &[(INITIAL_WINDOW_SIZE, 0)][..];
    let attacks = [
        (
            "20,000 requests without an end",
            1,
            &[][..],
            Attack::Bytes(unfinished_requests(20_000, SYNC)),
        ),
        (
            "20,000 requests without an end each",
            20,
            &[],
            Attack::Bytes(unfinished_requests(20_000, SYNC)),
        ),
        (
            "64 requests of 1 MiB without an end",
            1,
            &[],
            Attack::Bodies(64),
        ),
        (
            "6 requests of 1 MiB without an end each",
            20,
            &[],
            Attack::Bodies(6),
        ),
        (
            "64 answers that are not read",
            1,
            window_0,
            Attack::Bytes(pings(64)),
        ),
    ];
    LazyLock::force(&LARGE_BODY);
    // What the first calls cost belongs to none of the clients.
    ping_is_answered(&launcher).await;
    sleep(Duration::from_secs(1)).await;
    for (name, connections, settings, attack) in attacks {
        let allowed = ALL_CLIENTS_BYTES.min(CLIENT_BYTES * connections);
        let before = memory("VmRSS:") - memory("RssFile:");
        // The allocator may keep what attempts have cost, which varies with how the requests meet. The last one must not
        // add to it.
        let mut costs = Vec::new();
        for _ in 0..ATTEMPTS {
            costs.push(cost_of_clients(&launcher, connections, settings, &attack, before).await);
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
}

/// How many bytes more than `before` the process had at most, without its own file, while clients sent `bytes` and read
/// nothing, and others were answered.
async fn cost_of_clients(
    launcher: &TestLauncher,
    connections: u64,
    settings: &[(u16, u32)],
    attack: &Attack,
    before: u64,
) -> u64 {
    fs::write("/proc/self/clear_refs", "5").unwrap();
    let socket = launcher.paths.ready_socket();
    let clients = (0..connections).map(|_| send(&socket, settings, attack));
    let clients = join_all(clients).await;
    ping_is_answered(launcher).await;
    sleep(Duration::from_millis(500)).await;
    // Pages of the program's own file are read from the disk as they are needed, and belong to no client. They only grow.
    let cost = memory("VmHWM:").saturating_sub(memory("RssFile:") + before);
    drop(clients);
    ping_is_answered(launcher).await;
    sleep(Duration::from_millis(200)).await;
    cost
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
    ping_is_answered(&launcher).await;
    // A client whose connection was closed connects again.
    let ping = timeout(ANSWER_TIMEOUT, existing.ping(EmptyRequest {}));
    ping.await.unwrap().unwrap();
    let newest = idle.pop().unwrap();
    assert!(is_closed(&mut idle[0], ANSWER_TIMEOUT).await);
    assert!(!is_closed(&mut { newest }, Duration::from_millis(500)).await);
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
    launcher.sync_vm().await.unwrap();
    launcher.manager.run(ManagerCommand::Kill).await.unwrap();
    let mut clients = Vec::new();
    for _ in 0..3 {
        clients.push(
            send(
                &socket,
                &[],
                &Attack::Bytes(unfinished_requests(20_000, SYNC)),
            )
            .await,
        );
        clients.push(send(&socket, &[], &Attack::Bytes(unfinished_requests(8, SYNC))).await);
    }
    // A call that is worked on, and does not end before the launcher has.
    launcher.fake.delay(Call::Stats, Duration::from_secs(9));
    let mut hanging = client(&launcher).await;
    let hanging = tokio::spawn(async move { hanging.get_domain_stats(EmptyRequest {}).await });
    let stats_before = launcher.fake.count(Call::Stats);
    wait_for("the call hangs", async || {
        launcher.fake.count(Call::Stats) > stats_before
    })
    .await;
    let config = config(&launcher.paths);
    let (signal, receiver) = watch::channel(false);
    let run = tokio::spawn(async move { run_composed(launcher.running, &config, receiver).await });
    signal.send_replace(true);
    let ended = timeout(END_TIMEOUT, run).await;
    ended.expect("the launcher ends").unwrap().unwrap();
    assert!(!socket.exists());
    for mut client in clients {
        assert!(is_closed(&mut client.stream, Duration::from_secs(1)).await);
    }
    let answer = timeout(Duration::from_secs(1), hanging).await;
    answer
        .expect("its connection is closed")
        .unwrap()
        .unwrap_err();
}
