//! Records of memory dumps, and a running VM that makes dumps and collects their records.

use std::sync::Mutex;
use std::time::Duration;

use futures_util::future::BoxFuture;
use kubevirt_api::domain_metadata::{Backup, MemoryDump, Migration};
use libvirt::DomainState;
use tokio::sync::Notify;

use crate::jobs::running_test_vm::{DOMAIN, RunningVm, TEST_TIMEOUT};
use crate::jobs::{JobRecorder, JobStart, MemoryDumpRequest, ProgressTimes};

/// Timeout of jobs without progress. Only tests of that timeout wait for it.
pub(super) const STALL_TIMEOUT: Duration = Duration::from_secs(1);

/// Collects the records of memory dumps in order.
#[derive(Default)]
pub(super) struct Records {
    pub(super) records: Mutex<Vec<MemoryDump>>,
    /// Whether `all_published` panics.
    pub(super) panics: bool,
    /// Notified when the records count as published; `None` publishes at once.
    pub(super) published: Option<Notify>,
}

impl JobRecorder for Records {
    fn set_memory_dump(&self, record: MemoryDump) {
        self.records.lock().unwrap().push(record);
    }

    fn migration(&self) -> Option<Migration> {
        None
    }

    fn set_migration(&self, record: Migration) {
        panic!("no migration is made here: {record:?}");
    }

    fn set_backup(&self, _: Backup) {
        unreachable!("no backup is made here");
    }

    fn all_published(&self) -> BoxFuture<'_, ()> {
        assert!(!self.panics, "a fault of the launcher");
        Box::pin(async {
            if let Some(published) = &self.published {
                published.notified().await;
            }
        })
    }
}

impl RunningVm<Records> {
    pub(super) async fn new() -> Self {
        RunningVm::with(Records::default()).await
    }

    pub(super) async fn with(records: Records) -> Self {
        let xml = format!("<domain type='kvm'><name>{DOMAIN}</name></domain>");
        let progress = ProgressTimes {
            report_interval: STALL_TIMEOUT / 20,
            stall_timeout: STALL_TIMEOUT,
        };
        RunningVm::launch(&xml, records, progress).await
    }

    pub(super) fn path(&self, name: &str) -> String {
        self.directory.path().join(name).to_str().unwrap().into()
    }

    pub(super) fn start(&self, path: &str) -> JobStart {
        let request = MemoryDumpRequest::new(path).unwrap();
        self.jobs.start_memory_dump(request)
    }

    pub(super) async fn records_after_end(&self) -> Vec<MemoryDump> {
        tokio::time::timeout(TEST_TIMEOUT, self.jobs.wait_until_ended())
            .await
            .unwrap();
        self.records.records.lock().unwrap().clone()
    }

    pub(super) async fn wait_until(&self, condition: impl Fn() -> bool) {
        let waiting = async {
            while !condition() {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        tokio::time::timeout(TEST_TIMEOUT, waiting).await.unwrap();
    }

    pub(super) async fn wait_until_dumping(&self) {
        let dumping = || self.fake.state(DOMAIN).unwrap().state == DomainState::Paused;
        self.wait_until(dumping).await;
    }

    /// Waits for the end, and returns the reason of the failure, which must be the second of two records.
    pub(super) async fn failure(&self) -> String {
        let records = self.records_after_end().await;
        let [started, failed] = &records[..] else {
            panic!("{records:?}")
        };
        assert!(!started.completed && started.end_timestamp.is_none());
        assert!(failed.completed && failed.failed && failed.end_timestamp.is_some());
        assert_eq!(failed.file_name, started.file_name);
        assert_eq!(*self.jobs.running().borrow(), None);
        failed.failure_reason.clone()
    }
}
