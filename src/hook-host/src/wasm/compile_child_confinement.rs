//! What a compile child gives up before it reads a module: files, network, other processes.
//!
//! seccomp permits only the system calls of a computation with threads. Landlock refuses files, TCP and signals a
//! second time. A kernel without one of them leaves the other, and the limits.

use std::collections::BTreeMap;

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetStatus,
    Scope,
};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, apply_filter,
};

/// The parts of the confinement that this kernel does not have.
pub(super) type Missing = Vec<String>;

/// What a kernel has that confines compile children, and what is missing of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelFeature {
    /// `Landlock` or `seccomp`.
    pub name: &'static str,
    /// Why it cannot be used here; none if it can.
    pub missing: Option<String>,
}

/// Asks the kernel which confinement features it has. This does not confine the process.
#[must_use]
pub fn kernel_features() -> [KernelFeature; 2] {
    let landlock = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(ABI::V1))
        .and_then(Ruleset::create);
    // A filter holds for the thread that asks for it.
    let filter = || {
        let program = no_clone3().map_err(|error| error.to_string())?;
        apply_filter(&program).map_err(|error| error.to_string())
    };
    let seccomp = std::thread::spawn(filter).join();
    let seccomp = seccomp.unwrap_or_else(|_| Err("it was not tried".to_owned()));
    [
        KernelFeature {
            name: "Landlock",
            missing: landlock.err().map(|error| error.to_string()),
        },
        KernelFeature {
            name: "seccomp",
            missing: seccomp.err(),
        },
    ]
}

/// Confines the calling thread and the threads that it will start: they can open nothing, connect to nothing, and
/// start and signal no other process. Returns what the kernel does not have.
///
/// For a process with one thread and `no_new_privs`.
pub(super) fn confine() -> Missing {
    let landlock = restrict_files()
        .err()
        .map(|why| format!("Landlock ({why})"));
    let seccomp = restrict_calls().err().map(|why| format!("seccomp ({why})"));
    landlock.into_iter().chain(seccomp).collect()
}

fn restrict_files() -> Result<(), String> {
    // Without rules, nothing that is handled is permitted. What an older kernel does not handle is left out.
    let restricted = Ruleset::default()
        .handle_access(AccessFs::from_all(ABI::V6))
        .and_then(|ruleset| ruleset.handle_access(AccessNet::from_all(ABI::V6)))
        .and_then(|ruleset| ruleset.scope(Scope::from_all(ABI::V6)))
        .and_then(Ruleset::create)
        .and_then(|ruleset| ruleset.restrict_self())
        .map_err(|error| error.to_string())?;
    match restricted.ruleset {
        RulesetStatus::NotEnforced => Err("the kernel does not enforce it".to_owned()),
        RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced => Ok(()),
    }
}

fn restrict_calls() -> Result<(), String> {
    for filter in [no_clone3(), computation()] {
        let program = filter.map_err(|error| error.to_string())?;
        apply_filter(&program).map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// A filter cannot read the flags of `clone3`, which are in memory. The C library uses `clone` if there is no `clone3`.
fn no_clone3() -> Result<BpfProgram, seccompiler::BackendError> {
    let calls = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
    let none = SeccompAction::Errno(libc::ENOSYS.unsigned_abs());
    SeccompFilter::new(calls, SeccompAction::Allow, none, arch()?)?.try_into()
}

/// Permits what a computation needs: its memory and threads, and what it has open. Other calls fail with `EPERM`.
fn computation() -> Result<BpfProgram, seccompiler::BackendError> {
    let own_process = u64::from(std::process::id());
    let thread = libc::CLONE_THREAD.unsigned_abs().into();
    let only = |argument, comparison, value| {
        let condition =
            SeccompCondition::new(argument, SeccompCmpArgLen::Qword, comparison, value)?;
        SeccompRule::new(vec![condition]).map(|rule| vec![rule])
    };
    let mut calls: BTreeMap<i64, Vec<SeccompRule>> =
        COMPUTATION.iter().map(|call| (*call, Vec::new())).collect();
    calls.insert(
        libc::SYS_clone,
        only(0, SeccompCmpOp::MaskedEq(thread), thread)?,
    );
    // `abort` when memory is short.
    calls.insert(libc::SYS_tgkill, only(0, SeccompCmpOp::Eq, own_process)?);
    calls.insert(libc::SYS_prlimit64, only(0, SeccompCmpOp::Eq, 0)?);
    let refused = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    SeccompFilter::new(calls, refused, SeccompAction::Allow, arch()?)?.try_into()
}

fn arch() -> Result<TargetArch, seccompiler::BackendError> {
    std::env::consts::ARCH.try_into()
}

const COMPUTATION: &[i64] = &[
    // What is open: the module, the artifact, the report.
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_lseek,
    libc::SYS_fstat,
    libc::SYS_close,
    libc::SYS_statx,
    // Memory.
    libc::SYS_brk,
    libc::SYS_mmap,
    libc::SYS_mprotect,
    libc::SYS_mremap,
    libc::SYS_munmap,
    libc::SYS_madvise,
    // Threads.
    libc::SYS_clone3,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_futex,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_membarrier,
    libc::SYS_prctl,
    libc::SYS_rseq,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_yield,
    libc::SYS_set_robust_list,
    libc::SYS_set_tid_address,
    // Signals to itself.
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    // Time and random numbers.
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_getrandom,
    libc::SYS_nanosleep,
    libc::SYS_restart_syscall,
];

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::fs::File;
    use std::io::ErrorKind;
    use std::net::{TcpListener, UdpSocket};
    use std::os::unix::net::UnixDatagram;
    use std::os::unix::process::CommandExt;
    use std::process::Command;
    use std::thread;

    use super::*;

    /// Filters and rulesets belong to a thread, and to those that it starts.
    fn in_a_thread(work: impl FnOnce() + Send + 'static) {
        thread::spawn(work).join().unwrap();
    }

    fn refused<T>(result: std::io::Result<T>) {
        assert_eq!(result.err().unwrap().kind(), ErrorKind::PermissionDenied);
    }

    #[test]
    fn restricted_thread_cannot_open_paths() {
        in_a_thread(|| {
            let before = File::open("/proc/self/status").unwrap();
            if let Err(why) = restrict_files() {
                // Past the capture of test output, so that it is seen.
                let line = format!(
                    "*** NOT TESTED: a compile child without files: no Landlock ({why}) ***\n"
                );
                return std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes()).unwrap();
            }
            refused(File::open("/etc/passwd"));
            refused(File::create("/tmp/confinement"));
            refused(std::fs::read_dir("/"));
            in_a_thread(|| refused(File::open("/etc/passwd")));
            assert!(std::io::read_to_string(before).unwrap().contains("VmHWM"));
        });
        File::open("/etc/passwd").unwrap();
    }

    #[test]
    fn only_a_computation_is_left() {
        let parent = rustix::process::getppid().unwrap_or(rustix::process::Pid::INIT);
        in_a_thread(move || {
            restrict_calls().unwrap();
            refused(File::open("/etc/passwd"));
            refused(Command::new("/bin/true").spawn());
            refused(Err::<(), _>(Command::new("/bin/true").exec()));
            refused(TcpListener::bind("127.0.0.1:0"));
            refused(UdpSocket::bind("127.0.0.1:0"));
            refused(UnixDatagram::unbound());
            refused(rustix::process::test_kill_process(parent).map_err(Into::into));
            let sum = thread::spawn(|| {
                vec![1_u8; 16 << 20]
                    .iter()
                    .map(|n| u64::from(*n))
                    .sum::<u64>()
            });
            assert_eq!(sum.join().unwrap(), 16 << 20);
            in_a_thread(|| refused(File::open("/etc/passwd")));
        });
    }

    #[test]
    fn error_contains_the_missing_kernel_feature() {
        in_a_thread(|| {
            let calls = [libc::SYS_landlock_create_ruleset, libc::SYS_seccomp];
            let calls = calls.map(|call| (call, Vec::new())).into();
            let absent = SeccompAction::Errno(libc::ENOSYS.unsigned_abs());
            let filter = SeccompFilter::new(calls, SeccompAction::Allow, absent, arch().unwrap());
            let program: BpfProgram = filter.unwrap().try_into().unwrap();
            apply_filter(&program).unwrap();
            let missing = confine();
            assert_eq!(missing.len(), 2, "{missing:?}");
            assert!(missing[0].starts_with("Landlock (") && missing[1].starts_with("seccomp ("));
            // The child goes on without.
            File::open("/etc/passwd").unwrap();
        });
    }
}
