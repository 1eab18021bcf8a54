//! The confinement of a compile child before it reads a module: no files, no network, no other processes.
//!
//! seccomp permits only the system calls of a computation with threads. Landlock also refuses files, TCP and
//! signals. On a kernel without one of them, the other and the resource limits still apply.

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;

use std::collections::BTreeMap;

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetStatus,
    Scope,
};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, apply_filter,
};

/// Names of the kernel features for confinement that cannot be used, each with the reason.
pub(super) type MissingFeatures = Vec<String>;

/// A kernel feature that confines compile children, and whether it can be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelFeature {
    /// `Landlock` or `seccomp`.
    pub name: &'static str,
    /// Why the feature cannot be used; `None` if it can.
    pub missing: Option<String>,
}

/// Tests which confinement features the kernel has. This does not confine the process.
#[must_use]
pub fn kernel_features() -> [KernelFeature; 2] {
    let landlock = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(ABI::V1))
        .and_then(Ruleset::create);
    // The filter applies only to the thread that installs it, so this thread is not confined.
    let install_filter = || {
        let program = clone3_filter().map_err(|error| error.to_string())?;
        apply_filter(&program).map_err(|error| error.to_string())
    };
    let seccomp = std::thread::spawn(install_filter).join();
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

/// Confines the calling thread and the threads that it will start: they can open no files, make no connections, and
/// start and signal no other process. Returns the features that the kernel does not have.
///
/// The process must have only one thread, and `no_new_privs`.
pub(super) fn confine() -> MissingFeatures {
    let landlock = restrict_files()
        .err()
        .map(|reason| format!("Landlock ({reason})"));
    let seccomp = restrict_system_calls()
        .err()
        .map(|reason| format!("seccomp ({reason})"));
    landlock.into_iter().chain(seccomp).collect()
}

fn restrict_files() -> Result<(), String> {
    // A ruleset without rules permits no access of the handled kinds. Kinds that an older kernel does not know are left
    // out.
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

fn restrict_system_calls() -> Result<(), String> {
    for filter in [clone3_filter(), computation_filter()] {
        let program = filter.map_err(|error| error.to_string())?;
        apply_filter(&program).map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// A filter that reports `clone3` as missing, because filters cannot read its flags, which are in memory. The C library
/// then uses `clone`.
fn clone3_filter() -> Result<BpfProgram, seccompiler::BackendError> {
    let calls = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
    let not_implemented = SeccompAction::Errno(libc::ENOSYS.unsigned_abs());
    SeccompFilter::new(calls, SeccompAction::Allow, not_implemented, arch()?)?.try_into()
}

/// A filter that permits the system calls of a computation: on memory, threads and open files. Others fail with
/// `EPERM`.
fn computation_filter() -> Result<BpfProgram, seccompiler::BackendError> {
    let own_process = u64::from(std::process::id());
    let thread = libc::CLONE_THREAD.unsigned_abs().into();
    let only_if = |argument, comparison, value| {
        let condition =
            SeccompCondition::new(argument, SeccompCmpArgLen::Qword, comparison, value)?;
        SeccompRule::new(vec![condition]).map(|rule| vec![rule])
    };
    let mut calls: BTreeMap<i64, Vec<SeccompRule>> = COMPUTATION_CALLS
        .iter()
        .map(|call| (*call, Vec::new()))
        .collect();
    calls.insert(
        libc::SYS_clone,
        only_if(0, SeccompCmpOp::MaskedEq(thread), thread)?,
    );
    // `abort` needs `tgkill` when memory is exhausted.
    calls.insert(libc::SYS_tgkill, only_if(0, SeccompCmpOp::Eq, own_process)?);
    calls.insert(libc::SYS_prlimit64, only_if(0, SeccompCmpOp::Eq, 0)?);
    let denied = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    SeccompFilter::new(calls, denied, SeccompAction::Allow, arch()?)?.try_into()
}

fn arch() -> Result<TargetArch, seccompiler::BackendError> {
    std::env::consts::ARCH.try_into()
}

/// The system calls of a computation with threads that are permitted with all arguments.
const COMPUTATION_CALLS: &[i64] = &[
    // Open files: the module, the artifact, the report.
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
    // Signals of the process to itself.
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
