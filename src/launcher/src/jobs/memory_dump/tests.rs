//! Tests of memory dumps: their requests and records, and whole dumps on the fake libvirt.

mod dump_jobs;
mod recorded_dumps;
mod requests_and_records;

use std::process::Command;
use std::time::{Duration, Instant};

use super::*;

#[test]
fn only_earlier_dumps_are_removed() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name| directory.path().join(name);
    for name in ["a.memory.dump", "b.memory.dump.partial", "disk.img"] {
        fs::write(path(name), "x").unwrap();
    }
    fs::create_dir(path("c.memory.dump")).unwrap();
    std::os::unix::fs::symlink(path("disk.img"), path("d.memory.dump")).unwrap();
    prepare_directory(directory.path()).unwrap();
    let mut left: Vec<_> = fs::read_dir(directory.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    left.sort();
    assert_eq!(left, ["c.memory.dump", "disk.img"]);
}

#[test]
fn error_contains_the_path_of_a_missing_directory() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    fs::write(&file, "").unwrap();
    for path in [directory.path().join("none"), file] {
        let error = prepare_directory(&path).unwrap_err().to_string();
        assert!(error.contains(&*path.to_string_lossy()), "{error}");
    }
}

#[test]
fn only_the_io_helper_of_the_file_matches() {
    let helper = b"/usr/lib/libvirt/libvirt_iohelper\0/d/a.memory.dump\x001\0";
    assert!(is_command_of_helper(helper, "/d/a.memory.dump"));
    assert!(!is_command_of_helper(helper, "/d/b.memory.dump"));
    assert!(!is_command_of_helper(
        b"vi\0/d/a.memory.dump\0",
        "/d/a.memory.dump"
    ));
    assert!(!is_command_of_helper(b"libvirt_iohelper", ""));
    assert!(!is_command_of_helper(b"", ""));
}

#[test]
fn io_helper_is_killed() {
    use std::os::unix::process::CommandExt;
    // A duration that no other test sleeps for.
    let path = "61.0625";
    let mut child = Command::new("sleep")
        .arg0("/usr/lib/libvirt/libvirt_iohelper")
        .arg(path)
        .spawn()
        .unwrap();
    assert!(!kill_iohelper("61.5"));
    // The kernel shows the arguments a moment after the start.
    let deadline = Instant::now() + Duration::from_secs(20);
    while !kill_iohelper(path) {
        assert!(Instant::now() < deadline, "no helper is found");
        thread::sleep(Duration::from_millis(1));
    }
    assert!(!child.wait().unwrap().success());
}
