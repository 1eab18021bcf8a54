//! Errors of compiling a module.

use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;

/// Why a module could not be compiled.
#[derive(Debug, thiserror::Error)]
pub enum CompileError {
    /// The compiler rejects the module.
    #[error("{0}")]
    Refused(String),
    /// There is no usable artifact, and [`Compiler::None`](super::Compiler::None) compiles nothing.
    #[error(
        "it is not compiled ahead for this program and machine, and nothing is compiled here: \
         `virt-hook compile --into DIRECTORY` does it (the artifacts and their directory must be root's, and on the mount of this program)"
    )]
    NotCompiledAhead,
    /// The compile child exceeded one of its limits.
    #[error(
        "compiling it takes more than {0}; compiled ahead with `virt-hook compile` it takes nothing"
    )]
    LimitExceeded(CompileLimit),
    /// The compile child cannot be confined, and the limits do not permit to compile without.
    #[error(
        "it is not compiled, because the kernel or the container does not let its compiler be confined: seccomp ({0}); let the \
         container use seccomp, compile it ahead with `virt-hook compile`, or permit it: --hook-compile-unconfined of the launcher, \
         --compile-unconfined of `virt-hook serve`, VIRT_HOOK_COMPILE_UNCONFINED=true of the other verbs"
    )]
    NotConfined(String),
    /// The disk is full, or the directory of compiled modules cannot be written.
    #[error("its code could not be written: {0}")]
    NotWritten(String),
    /// The child could not be started or waited for.
    #[error("{program} could not be run to compile it: {source}")]
    Child {
        /// The program.
        program: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The child ended without a report.
    #[error("{program}, run to compile it, ended with {status} and wrote {stderr:?}")]
    ChildDied {
        /// The program.
        program: PathBuf,
        /// The exit status.
        status: ExitStatus,
        /// The text on its standard error.
        stderr: String,
    },
}

/// A limit of the compile child, as text with its value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CompileLimit {
    /// The limit on processor time, or the deadline.
    #[error("{0}")]
    Time(String),
    /// The limit on memory, or on the size of the code.
    #[error("{0}")]
    Memory(String),
}
