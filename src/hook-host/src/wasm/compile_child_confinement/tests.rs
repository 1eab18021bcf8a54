//! What a confined thread can and cannot do.

use std::fs::File;
use std::io::ErrorKind;
use std::net::{TcpListener, UdpSocket};
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::thread;

use super::*;

/// Runs work in a new thread, because filters and rulesets apply to a thread and those that it starts.
fn in_a_thread(work: impl FnOnce() + Send + 'static) {
    thread::spawn(work).join().unwrap();
}

fn assert_denied<T>(result: std::io::Result<T>) {
    assert_eq!(result.err().unwrap().kind(), ErrorKind::PermissionDenied);
}

#[test]
fn restricted_thread_cannot_open_paths() {
    in_a_thread(|| {
        let before = File::open("/proc/self/status").unwrap();
        if let Err(reason) = restrict_files() {
            // Written to stderr directly, because the test harness captures printed output.
            let line = format!(
                "*** NOT TESTED: a compile child without files: no Landlock ({reason}) ***\n"
            );
            return std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes()).unwrap();
        }
        assert_denied(File::open("/etc/passwd"));
        assert_denied(File::create("/tmp/confinement"));
        assert_denied(std::fs::read_dir("/"));
        in_a_thread(|| assert_denied(File::open("/etc/passwd")));
        assert!(std::io::read_to_string(before).unwrap().contains("VmHWM"));
    });
    File::open("/etc/passwd").unwrap();
}

#[test]
fn restricted_thread_can_only_compute() {
    let parent = rustix::process::getppid().unwrap_or(rustix::process::Pid::INIT);
    in_a_thread(move || {
        restrict_system_calls().unwrap();
        assert_denied(File::open("/etc/passwd"));
        assert_denied(Command::new("/bin/true").spawn());
        assert_denied(Err::<(), _>(Command::new("/bin/true").exec()));
        assert_denied(TcpListener::bind("127.0.0.1:0"));
        assert_denied(UdpSocket::bind("127.0.0.1:0"));
        assert_denied(UnixDatagram::unbound());
        assert_denied(rustix::process::test_kill_process(parent).map_err(Into::into));
        let sum = thread::spawn(|| {
            vec![1_u8; 16 << 20]
                .iter()
                .map(|n| u64::from(*n))
                .sum::<u64>()
        });
        assert_eq!(sum.join().unwrap(), 16 << 20);
        in_a_thread(|| assert_denied(File::open("/etc/passwd")));
    });
}

#[test]
fn restricted_thread_cannot_make_memory_executable() {
    let module = wat::parse_str("(module (func (export \"f\")))").unwrap();
    let load = move || wasmtime::Module::new(&wasmtime::Engine::default(), &module);
    load().unwrap();
    in_a_thread(move || {
        restrict_system_calls().unwrap();
        let error = format!("{:#}", load().err().unwrap());
        assert!(error.contains("Operation not permitted"), "{error}");
    });
}

#[test]
fn restricted_thread_changes_nothing_of_its_process_but_names() {
    use rustix::process::{DumpableBehavior, set_dumpable_behavior};
    in_a_thread(|| {
        set_dumpable_behavior(DumpableBehavior::Dumpable).unwrap();
        restrict_system_calls().unwrap();
        let changed = set_dumpable_behavior(DumpableBehavior::Dumpable);
        assert_denied(changed.map_err(Into::into));
        assert_denied(rustix::thread::set_no_new_privs(true).map_err(Into::into));
        rustix::thread::set_name(c"computation").unwrap();
        let named = thread::Builder::new().name("named".into());
        named.spawn(|| ()).unwrap().join().unwrap();
    });
}

#[test]
fn confine_returns_what_is_missing() {
    in_a_thread(|| {
        let calls = [libc::SYS_landlock_create_ruleset, libc::SYS_seccomp];
        let calls = calls.map(|call| (call, Vec::new())).into();
        let absent = SeccompAction::Errno(libc::ENOSYS.unsigned_abs());
        let filter = SeccompFilter::new(calls, SeccompAction::Allow, absent, arch().unwrap());
        let program: BpfProgram = filter.unwrap().try_into().unwrap();
        apply_filter(&program).unwrap();
        let confinement = confine();
        assert!(confinement.missing_landlock.is_some());
        assert!(confinement.missing_seccomp.is_some());
        // The thread is not confined, and continues.
        File::open("/etc/passwd").unwrap();
    });
}
