//! Tests of memory dump requests and records.

use libvirt::fake::FakeDaemon;
use proptest::prelude::*;

use crate::jobs::memory_dump::*;

fn request(path: &str) -> MemoryDumpRequest {
    MemoryDumpRequest::new(path).unwrap()
}

#[test]
fn path_is_split_into_directory_and_file_name() {
    let request = request("/var/run/kubevirt/hotplug-disks/dump/vm1-dump.memory.dump");
    assert_eq!(request.name, "vm1-dump.memory.dump");
    let directory = Path::new("/var/run/kubevirt/hotplug-disks/dump");
    assert_eq!(request.directory(), directory);
}

#[test]
fn unusable_path_is_refused() {
    for path in [
        "", "/", "x", "./x", "../x", "/a/../x", "/a/..", "/a/", "/a/.", "a/b",
    ] {
        let refused = MemoryDumpRequest::new(path);
        assert_eq!(refused, Err(DumpPathError::NotAFile), "{path:?}");
    }
    let long_name = format!("/{}", "x".repeat(MAX_NAME_BYTES + 1));
    let long_path = "/x".repeat(MAX_PATH_BYTES);
    for path in ["/a\0b", &long_name, &long_path] {
        assert_eq!(MemoryDumpRequest::new(path), Err(DumpPathError::Unusable));
    }
}

/// As recorded with KubeVirt's launcher: a dump, the same dump again, a dump to a missing directory.
#[test]
fn dump_records_have_kubevirts_fields() {
    let first = request("/run/kubevirt/md/vm1.memory.dump");
    assert!(!first.is_recorded_in(None));
    let started_record = begin(&first, "2026-11-21T13:01:52Z".into());
    assert_eq!(started_record.file_name, "vm1.memory.dump");
    assert_eq!(started_record.end_timestamp, None);
    assert!(!started_record.completed);
    assert!(first.is_recorded_in(Some(&started_record)));
    let done = complete(started_record, "2026-11-21T13:01:53Z".into(), Ok(()));
    assert!(done.completed && !done.failed && done.failure_reason.is_empty());
    assert_eq!(
        done.start_timestamp.as_deref(),
        Some("2026-11-21T13:01:52Z")
    );
    assert_eq!(done.end_timestamp.as_deref(), Some("2026-11-21T13:01:53Z"));
    assert!(first.is_recorded_in(Some(&done)));
    assert!(!request("/nonexistent/x.dump").is_recorded_in(Some(&done)));
}

#[test]
fn failure_is_recorded_with_libvirts_message() {
    let started_record = begin(&request("/nonexistent/x.dump"), "1".into());
    let error = FakeDaemon::error(
        38,
        10,
        "Failed to create file '/nonexistent/x.dump': No such file",
    );
    let failed = complete(started_record, "2".into(), Err(error.into()));
    assert!(failed.completed && failed.failed);
    assert_eq!(
        failed.failure_reason,
        "Domain memory dump failed: virError(Code=38, Domain=10, Message='Failed to create file \
         '/nonexistent/x.dump': No such file')"
    );
}

proptest! {
    #[test]
    fn accepted_path_is_absolute_and_names_a_file(path in "(/|\\.|\\.\\.|[a-z]{1,3}|\0){0,12}") {
        if let Ok(request) = MemoryDumpRequest::new(&path) {
            prop_assert_eq!(request.path(), path.as_str());
            prop_assert!(request.directory().is_absolute());
            prop_assert!(!request.name.is_empty() && !request.name.contains('/'));
            prop_assert_eq!(Path::new(&path).file_name().unwrap().to_str().unwrap(), request.name);
            prop_assert!(!path.split('/').any(|part| part == ".."));
        }
    }

    #[test]
    fn ended_dump_is_complete_and_failed_only_with_a_reason(
        name in "[a-z]{1,8}\\.memory\\.dump", fails in any::<bool>(), text in ".{0,40}")
    {
        let started_record = begin(&request(&format!("/d/{name}")), "s".into());
        let result = if fails { Err(FakeDaemon::error(1, 10, &text).into()) } else { Ok(()) };
        let ended = complete(started_record.clone(), "e".into(), result);
        prop_assert!(ended.completed && ended.end_timestamp.is_some());
        prop_assert_eq!(ended.failed, fails);
        prop_assert_eq!(ended.failure_reason.is_empty(), !fails);
        prop_assert_eq!(ended.file_name, started_record.file_name);
        prop_assert_eq!(ended.start_timestamp, started_record.start_timestamp);
    }
}
