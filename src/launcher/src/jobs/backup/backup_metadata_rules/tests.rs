//! Which backups are started or aborted, and the record of a backup that has ended.

use libvirt::JobStats;
use proptest::prelude::*;

use super::*;
use crate::jobs::backup::BackupFields;

fn id(name: &str, time: Option<&str>) -> BackupId {
    BackupId {
        name: name.into(),
        start_time: time.map(|time| time.parse().unwrap()),
    }
}

const TIME: &str = "2026-11-21T13:10:00Z";

fn request(name: &str, time: &str, mode: Mode) -> BackupRequest {
    BackupRequest::new(BackupFields {
        id: id(name, Some(time)),
        vmi_name: "vm1".into(),
        mode,
        target_path: Some("/bk".into()),
        incremental: None,
        skip_quiesce: false,
        persistent_tpm: false,
    })
    .unwrap()
}

fn ended_by_job(job_type: JobType, error: Option<&str>) -> BackupEnd {
    BackupEnd::Job(Box::new(CompletedJob {
        stats: JobStats {
            job_type,
            operation: JobOperation::Backup,
            ..JobStats::default()
        },
        error: error.map(str::to_owned),
    }))
}

fn ended_record(mode: Mode, end: BackupEnd, aborted: Option<AbortReason>) -> Backup {
    let started_record = begin(&request("bk1", TIME, mode));
    complete(
        started_record,
        mode,
        "2026-11-21T13:11:00Z".into(),
        end,
        aborted,
    )
}

#[test]
fn backup_that_runs_or_has_ended_is_not_started_again() {
    let first = request("bk1", TIME, Mode::Push);
    assert_eq!(decide(None, &first).unwrap(), StartDecision::Start);
    assert_eq!(
        decide(Some(&Backup::default()), &first).unwrap(),
        StartDecision::Start,
        "after a start that failed"
    );
    let running = begin(&first);
    assert_eq!(
        decide(Some(&running), &first).unwrap(),
        StartDecision::AlreadyRunning
    );
    let other = request("bk2", TIME, Mode::Push);
    assert_eq!(
        decide(Some(&running), &other).unwrap_err().to_string(),
        "backup bk1 already in progress, need to wait for completion"
    );
    let done = ended_record(Mode::Push, ended_by_job(JobType::Completed, None), None);
    assert!(decide(Some(&done), &first).is_err());
    assert_eq!(decide(Some(&done), &other).unwrap(), StartDecision::Start);
    let later = request("bk1", "2026-11-21T14:00:00Z", Mode::Push);
    assert_eq!(decide(Some(&done), &later).unwrap(), StartDecision::Start);
}

#[test]
fn abort_of_a_backup_that_does_not_run_is_refused() {
    let running = begin(&request("bk1", TIME, Mode::Push));
    let abort_error = |last: Option<&Backup>, id: &BackupId| {
        let error = require_running(last, id).err();
        error.map(|error| BackupError::Abort(Box::new(error)).to_string())
    };
    let running_id = id("bk1", Some("2026-11-21T14:10:00+01:00"));
    assert_eq!(abort_error(Some(&running), &running_id), None);
    let expected = [
        (None, "could not find ongoing backup"),
        (Some(Backup::default()), "could not find ongoing backup"),
        (
            Some(Backup {
                start_timestamp: None,
                ..running.clone()
            }),
            "backup did not start yet",
        ),
        (
            Some(ended_record(
                Mode::Push,
                ended_by_job(JobType::Completed, None),
                None,
            )),
            "backup already completed",
        ),
    ];
    for (last, text) in expected {
        let message = abort_error(last.as_ref(), &running_id).unwrap();
        assert_eq!(message, format!("failed to abort backup: {text}"));
    }
    for other in [id("bk2", Some(TIME)), id("bk1", None)] {
        let message = abort_error(Some(&running), &other).unwrap();
        assert!(message.ends_with("requested backup differs from ongoing one"));
    }
}

#[test]
fn cancelled_push_fails_and_cancelled_pull_succeeds() {
    let cancelled = || ended_by_job(JobType::Cancelled, Some("Operation canceled"));
    let push = ended_record(Mode::Push, cancelled(), Some(AbortReason::Requested));
    assert!(push.completed && push.failed);
    assert_eq!(push.backup_msg, "backup aborted");
    let pull = ended_record(Mode::Pull, cancelled(), Some(AbortReason::Requested));
    assert!(pull.completed && !pull.failed && pull.backup_msg.is_empty());
    let killed = ended_record(Mode::Pull, cancelled(), Some(AbortReason::Kill));
    assert!(killed.failed);
    assert_eq!(
        killed.backup_msg,
        "backup aborted, since the virtual machine is being ended"
    );
}

#[test]
fn record_of_a_failure_has_libvirts_reason() {
    let full = "No space left on device";
    let failed = ended_record(Mode::Push, ended_by_job(JobType::Failed, Some(full)), None);
    assert!(failed.failed && failed.completed);
    assert_eq!(failed.backup_msg, full);
    assert_eq!(failed.start_timestamp.as_deref(), Some(TIME));
    let unknown = ended_record(Mode::Pull, BackupEnd::Unknown, None);
    assert!(unknown.failed && unknown.backup_msg.contains("not known"));
}

fn any_end() -> impl Strategy<Value = BackupEnd> {
    let types = prop_oneof![
        Just(JobType::Completed),
        Just(JobType::Failed),
        Just(JobType::Cancelled),
        Just(JobType::Other),
    ];
    prop_oneof![
        (types, proptest::option::of(".{0,20}"))
            .prop_map(|(how, text)| ended_by_job(how, text.as_deref())),
        Just(BackupEnd::Unknown),
        Just(BackupEnd::Stalled("stalled".into())),
    ]
}

proptest! {
    #[test]
    fn every_ended_backup_is_complete_and_failed_only_with_a_reason(
        end in any_end(), push in any::<bool>(), aborted in any::<bool>())
    {
        let mode = if push { Mode::Push } else { Mode::Pull };
        let record = ended_record(mode, end, aborted.then_some(AbortReason::Requested));
        prop_assert!(record.completed && record.end_timestamp.is_some());
        prop_assert_eq!(record.failed, !record.backup_msg.is_empty());
        prop_assert_eq!(record.name, "bk1");
    }
}
