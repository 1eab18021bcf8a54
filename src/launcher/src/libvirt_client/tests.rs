//! Tests of the client on the fake libvirt.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use libvirt::fake::{Call, FakeDaemon};
use libvirt::{CloseReason, DomainStats, StartOptions, XmlKind};

use super::call::QUERY_THREADS;
use super::*;

const DOMAIN: &str = "default_vm1";
const XML: &str =
    "<domain type='kvm'><name>default_vm1</name><memory unit='KiB'>1024</memory></domain>";
const LONG: Duration = Duration::from_secs(30);

async fn client(fake: &FakeDaemon) -> Client {
    let connect: Connect = {
        let fake = fake.clone();
        Arc::new(move || fake.connect())
    };
    let connection = Connection::open("fake:///", connect, LONG).await.unwrap();
    let client = Client::new(connection, DOMAIN, "/nonexistent/pid".into());
    client.monitor(drop).await.unwrap();
    client
}

/// A fake daemon with a running domain.
fn daemon_with_running_domain() -> FakeDaemon {
    let fake = FakeDaemon::new();
    let domain = fake.connect().unwrap().define(XML).unwrap();
    domain.start(StartOptions::RUNNING).unwrap();
    fake
}

fn render(stats: &DomainStats, _: &str) -> String {
    stats.name.clone()
}

async fn restart(fake: &FakeDaemon, after: Duration) {
    fake.stop_daemon(CloseReason::Eof);
    sleep(after).await;
    fake.start_daemon();
}

#[tokio::test]
async fn concurrent_snapshots_share_one_read() {
    let fake = daemon_with_running_domain();
    let client = client(&fake).await;
    let snapshots = join_all((0..50).map(|_| client.snapshot(LONG))).await;
    assert!(
        snapshots
            .iter()
            .all(|snapshot| snapshot.as_ref().unwrap().presence() == Presence::Active)
    );
    assert_eq!((fake.count(Call::State), fake.count(Call::Xml)), (1, 1));
    client.snapshot(LONG).await.unwrap();
    assert_eq!((fake.count(Call::State), fake.count(Call::Lookup)), (2, 1));
}

#[tokio::test]
async fn queries_look_the_domain_up_once() {
    let fake = daemon_with_running_domain();
    let client = client(&fake).await;
    for _ in 0..3 {
        let (domain, state) = client.lookup_with_state().await.unwrap().unwrap();
        assert_eq!((domain.name(), state.is_down()), (DOMAIN, false));
        let xml = client.query("reading", QUICK, |domain| domain.xml(XmlKind::Active));
        assert!(xml.await.unwrap().is_some());
    }
    assert_eq!((fake.count(Call::State), fake.count(Call::Lookup)), (3, 1));
}

#[tokio::test]
async fn snapshot_after_a_command_shows_its_effect() {
    let fake = daemon_with_running_domain();
    let client = client(&fake).await;
    fake.delay(Call::Xml, Duration::from_millis(100));
    let early = tokio::spawn({
        let client = client.clone();
        async move { client.snapshot(LONG).await }
    });
    while fake.count(Call::Xml) == 0 {
        tokio::task::yield_now().await;
    }
    let domain = client.lookup().await.unwrap().unwrap();
    let pause = client.on(&domain, "pausing", COMMAND, |domain| domain.suspend());
    pause.await.unwrap();
    let late = client.snapshot(LONG).await.unwrap();
    assert_eq!(late.reason, kubevirt_api::domain_state::reason::USER);
    assert_ne!(early.await.unwrap().unwrap().reason, late.reason);
}

#[tokio::test]
async fn hanging_description_is_replaced_by_the_last_one_with_the_current_state() {
    let fake = daemon_with_running_domain();
    let client = client(&fake).await;
    client.snapshot(LONG).await.unwrap();
    fake.delay(Call::Xml, LONG);
    fake.io_error(DOMAIN, "virtio-disk0");
    let after = client.snapshot(LONG).await.unwrap();
    assert_eq!(after.reason, kubevirt_api::domain_state::reason::IO_ERROR);
    assert!(after.spec.is_some());
}

#[tokio::test]
async fn statistics_are_shared_and_end_with_the_domain() {
    let fake = daemon_with_running_domain();
    let client = client(&fake).await;
    for _ in 0..3 {
        let statistics = client.statistics(render).await.unwrap();
        assert_eq!(statistics.as_deref(), Some(DOMAIN));
    }
    assert_eq!(fake.count(Call::Stats), 1);
    fake.kill_qemu(DOMAIN);
    assert_eq!(client.statistics(render).await.unwrap(), None);
}

#[tokio::test]
async fn call_waits_for_a_restarted_daemon() {
    let fake = daemon_with_running_domain();
    let client = client(&fake).await;
    let domain = client.lookup().await.unwrap().unwrap();
    let pause = client.on(&domain, "pausing", COMMAND, |domain| domain.suspend());
    let (paused, ()) = tokio::join!(
        // The daemon stops first.
        async {
            tokio::task::yield_now().await;
            pause.await
        },
        restart(&fake, Duration::from_millis(300)),
    );
    paused.unwrap();
    assert_eq!(fake.count(Call::Suspend), 1);
    assert!(
        client.state_of(&domain).await.is_ok(),
        "the handle is one of the lost connection"
    );
}

/// The runtime has one thread, which this test occupies while the second connection is opened and lost.
#[tokio::test]
async fn connection_that_is_lost_while_it_is_opened_is_replaced() {
    let fake = daemon_with_running_domain();
    let client = client(&fake).await;
    fake.delay(Call::Subscribe, Duration::from_millis(50));
    restart(&fake, Duration::ZERO).await;
    while fake.count(Call::Subscribe) < 2 {
        tokio::task::yield_now().await;
    }
    std::thread::sleep(Duration::from_millis(300));
    restart(&fake, Duration::ZERO).await;
    assert_eq!(
        client.snapshot(LONG).await.unwrap().presence(),
        Presence::Active
    );
}

#[tokio::test]
async fn query_is_repeated_after_a_lost_connection() {
    let fake = daemon_with_running_domain();
    let client = client(&fake).await;
    client.snapshot(LONG).await.unwrap();
    fake.delay(Call::State, Duration::from_millis(200));
    let (snapshot, ()) = tokio::join!(client.snapshot(LONG), async {
        sleep(Duration::from_millis(100)).await;
        restart(&fake, Duration::ZERO).await;
    });
    assert_eq!(snapshot.unwrap().presence(), Presence::Active);
}

#[tokio::test]
async fn query_that_waits_for_a_thread_while_the_connection_is_lost_is_repeated() {
    let fake = daemon_with_running_domain();
    let client = client(&fake).await;
    let released = Arc::new(AtomicBool::new(false));
    let busy = [(); QUERY_THREADS].map(|()| {
        let (client, released) = (client.clone(), Arc::clone(&released));
        tokio::spawn(async move {
            let wait = move |_: &dyn Domain| {
                while !released.load(Ordering::SeqCst) {
                    std::thread::sleep(Duration::from_millis(1));
                }
                Ok(())
            };
            client.query("waiting", QUICK, wait).await
        })
    });
    sleep(Duration::from_millis(50)).await;
    let lookups = fake.count(Call::Lookup);
    let (found, ()) = tokio::join!(client.lookup(), async {
        tokio::task::yield_now().await;
        restart(&fake, Duration::ZERO).await;
        assert_eq!(fake.count(Call::Lookup), lookups, "no thread is free");
        released.store(true, Ordering::SeqCst);
    });
    assert!(found.unwrap().is_some());
    drop(busy);
}

#[tokio::test]
async fn missing_daemon_is_an_error() {
    let fake = daemon_with_running_domain();
    let client = client(&fake).await;
    fake.stop_daemon(CloseReason::Eof);
    let error = client.lookup().await.err().unwrap();
    assert!(
        error.to_string().contains("client socket is closed"),
        "{error}"
    );
}

#[tokio::test]
async fn hanging_calls_do_not_delay_the_domains_end() {
    let fake = daemon_with_running_domain();
    let client = client(&fake).await;
    let domain = client.lookup().await.unwrap().unwrap();
    let released = Arc::new(AtomicBool::new(false));
    let hung = (0..32).map(|number| {
        let (client, domain, released) =
            (client.clone(), Arc::clone(&domain), Arc::clone(&released));
        let class = [QUICK, COMMAND, AGENT][number % 3];
        tokio::spawn(async move {
            let hang = move |_: &dyn Domain| {
                while !released.load(Ordering::SeqCst) {
                    std::thread::sleep(Duration::from_millis(1));
                }
                Ok(())
            };
            client.on(&domain, "hanging", class, hang).await
        })
    });
    let hung: Vec<_> = hung.collect();
    sleep(Duration::from_millis(50)).await;
    client.destroy().await.unwrap();
    assert!(fake.state(DOMAIN).unwrap().is_down());
    assert!(hung.iter().all(|call| !call.is_finished()));
    released.store(true, Ordering::SeqCst);
}

#[tokio::test]
async fn ending_an_ended_domain_succeeds() {
    let fake = daemon_with_running_domain();
    let client = client(&fake).await;
    for _ in 0..2 {
        client.destroy().await.unwrap();
    }
    assert_eq!(fake.count(Call::Destroy), 1);
    let undefine = |domain: &dyn Domain| domain.undefine(libvirt::UndefineOptions::KEEP);
    assert!(client.end("undefining", undefine).await.unwrap().is_some());
    assert!(client.end("undefining", undefine).await.unwrap().is_none());
    client.destroy().await.unwrap();
}

#[test]
fn end_of_the_domain_is_answered_before_virt_handler_gives_up() {
    const VIRT_HANDLER_WAITS: Duration = Duration::from_secs(20);
    const JOB_END: Duration = Duration::from_secs(2);
    let with_process = SIGTERM_TIMEOUT + SIGKILL_TIMEOUT + LIBVIRT_NOTICE_TIMEOUT;
    let without_process = PROCESS_LOOKUP_TIMEOUT + STATE_QUERY_TIMEOUT + FORCEFUL_TIMEOUT;
    for most in [with_process, without_process] {
        assert!(most + JOB_END < VIRT_HANDLER_WAITS, "{most:?}");
    }
}
