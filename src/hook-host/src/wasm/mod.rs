//! WASM hooks: one engine, one module per file, a fresh store per call.
//!
//! **WASI.** Guests built for wasm32-wasip2 import some 24 WASI interfaces through their standard
//! library, needed or not. All of WASI 0.2 is therefore linked, and nothing is granted: no
//! directories, no sockets, no name lookup, no environment, no arguments; standard output and
//! error end up in the hook's log. Clocks and random numbers are the host's own.
//!
//! **Idle.** Between calls nothing runs: no thread, no timer. The epoch that interrupts a loop
//! ticks only while a call is in flight.

mod artifact;
mod baked;
mod budget;
mod call;
mod child;
mod compile;
mod describe;
mod engine;
mod error;
mod journal;
mod load;
mod preflight;
mod state;
mod ticker;
mod trust;
mod v0_1;
mod world;

use std::path::PathBuf;

pub use baked::{BakeError, Baked, bake, baked_dirs};
pub use call::{Answer, Call, CallError, Called, Context, Fixed};
pub use child::compile_child;
pub use compile::CompileError;
pub use describe::{Description, DescriptionError, Subscription, Wishes};
pub use error::LoadError;
pub use load::{Code, Loader, Module, Options, Pin};
pub use world::{Interface, World};

/// The first argument with which a program re-executes itself to compile one module.
pub const COMPILE_ARG: &str = "__compile-hook";

/// Who compiles modules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Compiler {
    /// A short-lived child with limits of its own: `program` is run with [`COMPILE_ARG`], and its
    /// main calls [`compile_child`] first. Compiling costs 20 MB that a process never gives back,
    /// and a container is killed whole when any process in it runs out of memory.
    Child {
        /// The program, most often this one (`/proc/self/exe`).
        program: PathBuf,
    },
    /// This process, without a memory limit: for tests and tools.
    InProcess,
}
