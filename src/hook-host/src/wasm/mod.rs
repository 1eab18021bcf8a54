//! WASM hooks: compiles, links and calls modules, with one engine per loader and a fresh store per call.
//!
//! **WASI.** Guests for wasm32-wasip2 import some 24 WASI interfaces through their standard
//! library, even if they do not use them. So all of WASI 0.2 is linked, but guests have no environment and
//! no arguments, and standard output and error go to the hook's log. Sockets and name lookup, and files
//! unless a directory is granted, are stubs that refuse. Clocks and random numbers are those of the host.
//!
//! **Idle.** The epoch that interrupts a loop advances only during calls and for one second afterwards, so modules need
//! no CPU time between calls.

mod artifact_cache;
mod call_types;
mod compile_child;
mod compile_child_confinement;
mod compile_error;
mod compile_job;
mod compile_memory;
mod compile_module;
mod component_interfaces;
mod core_module_memories;
mod deterministic_wasi;
mod engine_config;
mod engine_host;
mod epoch_thread;
mod file_digest;
mod file_io_threads;
mod function_code_cache;
mod guest_call;
mod hook_log;
mod load_error;
mod load_options;
mod load_single_module;
mod loaded_module;
mod module_file_checks;
mod module_hook_body;
mod module_loader;
mod module_machine_code;
mod precompile_for_image;
mod precompiled_dirs;
mod precompiled_file_trust;
mod run_compile_child;
mod sealed_module;
mod section_headers;
mod store_limiter;
mod store_state;
mod trap_explanation;
mod wit_versions;

use std::path::PathBuf;

pub use crate::digest_pin::DigestPin;
pub use crate::fixed_clock_and_random::Determinism;
pub use call_types::{Answer, Call, CallContext, CallError, CallReport};
pub use compile_child::compile_child;
pub use compile_child_confinement::{KernelFeature, kernel_features};
pub use compile_error::{CompileError, CompileLimit};
pub use component_interfaces::{ComponentInterfaces, Interface};
pub use function_code_cache::{functions_file, module_path_digest};
pub use load_error::LoadError;
pub use load_options::LoadOptions;
pub use loaded_module::{CodeOrigin, Module};
pub use module_loader::Loader;
pub use precompile_for_image::{PrecompileError, PrecompiledModule, precompile};
pub use precompiled_dirs::precompiled_dirs;
pub(crate) use sealed_module::SealedModule;
pub use wit_versions::LinkError;
pub use wit_versions::package_version;

/// The first argument with which a program starts itself as compile child.
pub const COMPILE_ARG: &str = "__compile-hook";

/// Which process compiles modules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Compiler {
    /// A compile child, which is a short-lived process with its own limits: `program` is run with [`COMPILE_ARG`], and
    /// its `main` calls [`compile_child`] first. In this process, compiling would cost 20 MB that are never freed, and
    /// the whole container is killed if a process in it runs out of memory.
    Child {
        /// The program to run, usually this one (`/proc/self/exe`).
        program: PathBuf,
    },
    /// This process, without a memory limit: for tests and tools.
    InProcess,
    /// No process: a module can be loaded only if it was compiled before.
    None,
}
