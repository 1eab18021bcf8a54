//! The input and the result of one compilation.

use std::fs::File;

use super::engine_config::TargetMachine;
use super::function_code_cache::FunctionFiles;

/// The result of a compilation.
pub(super) struct CompileOutcome {
    /// Peak memory of the child in bytes; `None` if this process compiled, or if the system does not report it.
    pub(super) peak_memory: Option<u64>,
    /// The number of functions whose code came from an earlier compilation.
    pub(super) reused_functions: usize,
}

/// Input, output and target of a compilation.
#[derive(Clone, Copy)]
pub(super) struct CompileJob<'a> {
    pub(super) module: &'a File,
    pub(super) artifact: &'a File,
    pub(super) machine: TargetMachine,
    /// The files with the code of functions, if a compile child uses them.
    pub(super) functions: Option<&'a FunctionFiles>,
}
