//! A running VM on the fake daemon for tests of jobs, whose records are collected.

use std::sync::Arc;
use std::time::Duration;

use hook_host::{Invocation, Reason};
use libvirt::StartOptions;
use libvirt::fake::{Call, FakeDaemon};
use tempfile::TempDir;

use crate::guest_agent::{Freezer, GuestInfoCache};
use crate::hook_failure_events::HookFailureEvents;
use crate::hooks_trait::Hooks;
use crate::jobs::{
    JobContext, JobRecorder, Jobs, MigrationEnvironment, ProgressTimes, VmEventsForJob,
};
use crate::libvirt_client::{Client, Connect, Connection, ConnectionEvent};
use crate::notify::{InvolvedObject, Notifier, RetryTimes};
use crate::vm_events::{VmEvent, vm_event_queue};

pub(in crate::jobs) const DOMAIN: &str = "default_vm1";
/// The connections of a running VM without jobs: the one that defines it, and the client's two.
const CONNECTIONS_OF_VM: usize = 3;
pub(in crate::jobs) const TEST_TIMEOUT: Duration = Duration::from_secs(20);

/// Hooks that do nothing.
struct NoHooks;

impl Hooks for NoHooks {}

/// The context of jobs on the fake daemon.
async fn context(
    fake: &FakeDaemon,
    recorder: Arc<dyn JobRecorder>,
    progress: ProgressTimes,
) -> JobContext {
    let daemon = fake.clone();
    let connect: Connect = Arc::new(move || daemon.connect());
    let connection = Connection::open("fake:///", Arc::clone(&connect), TEST_TIMEOUT);
    let client = Client::new(connection.await.unwrap(), DOMAIN, "/nonexistent/pid".into());
    let job_events = Arc::new(VmEventsForJob::default());
    let observed_events = Arc::clone(&job_events);
    let monitored = client.monitor(move |event| {
        if let ConnectionEvent::Libvirt(event) = event {
            observed_events.observe(&VmEvent::Libvirt(event));
        }
    });
    monitored.await.unwrap();
    let involved = InvolvedObject::default();
    let (notifier, _) = Notifier::new(
        "/nonexistent/notify".as_ref(),
        involved,
        RetryTimes::default(),
    );
    let cache = Arc::new(GuestInfoCache::new(vm_event_queue().0));
    JobContext {
        domain: DOMAIN.into(),
        connect,
        connect_target: Arc::new(|_: &str| FakeDaemon::new().connect()),
        recorder,
        progress,
        migration: MigrationEnvironment::default(),
        freezer: Freezer::new(client.clone(), cache, "/nonexistent/tpm".into()),
        client,
        backup_socket: "/nonexistent/backup-nbd-sock".into(),
        hooks: Arc::new(NoHooks),
        hook_failures: HookFailureEvents::new(notifier),
        invocation: Invocation {
            reason: Reason::MigrationSource,
            namespace: "default".into(),
            name: "vm1".into(),
            uid: "1234".into(),
            domain: DOMAIN.into(),
        },
        events: vm_event_queue().0,
        job_events,
    }
}

/// Jobs of a running domain on the fake daemon, their records, and a directory for files.
pub(in crate::jobs) struct RunningVm<R> {
    pub(in crate::jobs) fake: FakeDaemon,
    pub(in crate::jobs) jobs: Jobs,
    pub(in crate::jobs) records: Arc<R>,
    pub(in crate::jobs) directory: TempDir,
}

impl<R: JobRecorder + 'static> RunningVm<R> {
    pub(in crate::jobs) async fn launch(
        xml: &str,
        records: R,
        progress: ProgressTimes,
    ) -> RunningVm<R> {
        let (fake, records) = (FakeDaemon::new(), Arc::new(records));
        let domain = fake.connect().unwrap().define(xml).unwrap();
        domain.start(StartOptions::RUNNING).unwrap();
        let recorder = Arc::clone(&records) as Arc<dyn JobRecorder>;
        let jobs = Jobs::new(context(&fake, recorder, progress).await);
        // The client opens its connection for ending the domain in the background, which would take a failure that a
        // test plans for the connection of a job.
        while fake.count(Call::Connect) < CONNECTIONS_OF_VM {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        RunningVm {
            fake,
            jobs,
            records,
            directory: tempfile::tempdir().unwrap(),
        }
    }
}
