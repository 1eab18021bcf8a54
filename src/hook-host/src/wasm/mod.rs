//! WASM hooks: one engine, one module per file, a fresh store per call.
//!
//! **WASI.** Guests built for wasm32-wasip2 import some 24 WASI interfaces through their standard
//! library, needed or not. All of WASI 0.2 is therefore linked, and nothing is granted: no environment,
//! no arguments; standard output and error end up in the hook's log. Sockets and name lookup, and files
//! unless a directory is granted, are stubs that refuse. Clocks and random numbers are the host's own.
//!
//! **Idle.** Between calls nothing runs: no thread, no timer. The epoch that interrupts a loop
//! advances only while a call is in flight.

mod artifact_cache;
mod call_and_answer;
mod compile_child;
mod compile_child_confinement;
mod compile_module;
mod component_interfaces;
mod engine_config;
mod epoch_thread;
mod error;
mod file_digest;
mod file_io_threads;
mod function_code_cache;
mod guest_call;
mod hook_body;
mod hook_log;
mod loaded_module;
mod memory_limiter;
mod module_file;
mod module_loader;
mod precompile_for_image;
mod precompiled_dirs;
mod precompiled_file_trust;
mod sealed_module;
mod section_headers;
mod shared_engine;
mod store_state;
mod trap_explanation;
mod wit_versions;

use std::path::PathBuf;

pub use crate::digest_pin::DigestPin;
pub use crate::fixed_clock_and_random::Determinism;
pub use call_and_answer::{Answer, Call, CallContext, CallError, CallReport};
pub use compile_child::compile_child;
pub use compile_child_confinement::{KernelFeature, kernel_features};
pub use compile_module::CompileError;
pub use component_interfaces::{ComponentInterfaces, Interface};
pub use error::LoadError;
pub use function_code_cache::functions_file;
pub use loaded_module::{CodeOrigin, Module};
pub use module_loader::{LoadOptions, Loader};
pub use precompile_for_image::{PrecompileError, PrecompiledModule, precompile};
pub use precompiled_dirs::precompiled_dirs;
pub(crate) use sealed_module::SealedModule;
pub use wit_versions::LinkError;
pub use wit_versions::package_version;

/// The first argument with which a program re-executes itself to compile one module.
pub const COMPILE_ARG: &str = "__compile-hook";

/// Which process compiles modules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Compiler {
    /// A short-lived child process with its own limits: `program` is run with [`COMPILE_ARG`], and its
    /// `main` calls [`compile_child`] first. Compiling costs 20 MB that a process never returns,
    /// and a container is killed whole when any process in it runs out of memory.
    Child {
        /// The program to run, usually this one (`/proc/self/exe`).
        program: PathBuf,
    },
    /// This process, without a memory limit: for tests and tools.
    InProcess,
    /// None: a module runs only if it was compiled ahead.
    None,
}
