#![allow(clippy::unwrap_used)]

use libvirt::fake::FakeDaemon;
use proptest::prelude::*;

use super::*;

fn request(path: &str) -> MemoryDumpRequest {
    MemoryDumpRequest::new(path).unwrap()
}

#[test]
fn path_is_split() {
    let request = request("/var/run/kubevirt/hotplug-disks/dump/vm1-dump.memory.dump");
    assert_eq!(request.name, "vm1-dump.memory.dump");
    let directory = Path::new("/var/run/kubevirt/hotplug-disks/dump");
    assert_eq!(request.directory(), directory);
}

#[test]
fn path_without_a_file_name_is_refused() {
    for path in [
        "", "/", "x", "./x", "../x", "/a/../x", "/a/..", "/a/", "/a/.", "a/b",
    ] {
        let refused = MemoryDumpRequest::new(path);
        assert_eq!(refused, Err(PathError::NotAFile), "{path:?}");
    }
    let long_name = format!("/{}", "x".repeat(LONGEST_NAME + 1));
    let long_path = "/x".repeat(LONGEST_PATH);
    for path in ["/a\0b", &long_name, &long_path] {
        assert_eq!(MemoryDumpRequest::new(path), Err(PathError::Unusable));
    }
}

/// The recorded life of the reference: dump, the same again, a directory that is not there.
#[test]
fn dump_records_have_kubevirts_fields() {
    let first = request("/run/kubevirt/md/vm1.memory.dump");
    assert!(!first.is_recorded_in(None));
    let begun = begin(&first, "2026-11-21T13:01:52Z".into());
    assert_eq!(begun.file_name, "vm1.memory.dump");
    assert_eq!(begun.end_timestamp, None);
    assert!(!begun.completed);
    assert!(first.is_recorded_in(Some(&begun)));
    let done = complete(begun, "2026-11-21T13:01:53Z".into(), Ok(()));
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
    let begun = begin(&request("/nonexistent/x.dump"), "1".into());
    let error = FakeDaemon::error(
        38,
        10,
        "Failed to create file '/nonexistent/x.dump': No such file",
    );
    let failed = complete(begun, "2".into(), Err(error.into()));
    assert!(failed.completed && failed.failed);
    assert_eq!(
        failed.failure_reason,
        "Domain memory dump failed: virError(Code=38, Domain=10, Message='Failed to create file \
         '/nonexistent/x.dump': No such file')"
    );
}

proptest! {
    #[test]
    fn any_path_is_accepted_or_refused(path in "(/|\\.|\\.\\.|[a-z]{1,3}|\0){0,12}") {
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
        let begun = begin(&request(&format!("/d/{name}")), "s".into());
        let result = if fails { Err(FakeDaemon::error(1, 10, &text).into()) } else { Ok(()) };
        let ended = complete(begun.clone(), "e".into(), result);
        prop_assert!(ended.completed && ended.end_timestamp.is_some());
        prop_assert_eq!(ended.failed, fails);
        prop_assert_eq!(ended.failure_reason.is_empty(), !fails);
        prop_assert_eq!(ended.file_name, begun.file_name);
        prop_assert_eq!(ended.start_timestamp, begun.start_timestamp);
    }
}
