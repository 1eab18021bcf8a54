//! The confinement of a compile child before it reads a module: no files, no network, no other processes.
//!
//! seccomp permits only the system calls of a computation with threads, and is required: without it nothing is compiled,
//! unless the operator permits it. Landlock refuses files, TCP and signals a second time. Kernels that KubeVirt
//! supports are without it, so its absence is only reported.

#[cfg(test)]
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

/// What confines a thread, after the attempt to confine it.
pub(super) struct Confinement {
    /// Why system calls are not restricted; `None` if they are.
    pub(super) missing_seccomp: Option<String>,
    /// Why files are not refused a second time; `None` if they are.
    pub(super) missing_landlock: Option<String>,
}

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
/// start and signal no other process, and make no memory executable.
///
/// The process must have only one thread, and `no_new_privs`.
pub(super) fn confine() -> Confinement {
    Confinement {
        missing_landlock: restrict_files().err(),
        missing_seccomp: restrict_system_calls().err(),
    }
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
    let mut calls: BTreeMap<i64, Vec<SeccompRule>> = COMPUTATION_CALLS
        .iter()
        .map(|call| (*call, Vec::new()))
        .collect();
    let own_process = u64::from(std::process::id());
    let thread = bits(libc::CLONE_THREAD);
    let executable = bits(libc::PROT_EXEC);
    let restricted = [
        (libc::SYS_clone, 0, SeccompCmpOp::MaskedEq(thread), thread),
        // The code that the child writes is executed by another process.
        (libc::SYS_mmap, 2, SeccompCmpOp::MaskedEq(executable), 0),
        (libc::SYS_mprotect, 2, SeccompCmpOp::MaskedEq(executable), 0),
        (
            libc::SYS_prctl,
            0,
            SeccompCmpOp::Eq,
            bits(libc::PR_SET_NAME),
        ),
        // `abort` needs `tgkill` when memory is exhausted.
        (libc::SYS_tgkill, 0, SeccompCmpOp::Eq, own_process),
        (libc::SYS_prlimit64, 0, SeccompCmpOp::Eq, 0),
    ];
    for (call, argument, comparison, value) in restricted {
        // These arguments have 32 bits; the kernel ignores the upper half of the register.
        let condition =
            SeccompCondition::new(argument, SeccompCmpArgLen::Dword, comparison, value)?;
        calls.insert(call, vec![SeccompRule::new(vec![condition])?]);
    }
    let denied = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    SeccompFilter::new(calls, denied, SeccompAction::Allow, arch()?)?.try_into()
}

/// The bits of a C constant as an argument of a system call.
fn bits(constant: i32) -> u64 {
    constant.unsigned_abs().into()
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
