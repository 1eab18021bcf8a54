//! The configuration of the wasmtime engines: one that compiles, and one that runs compiled code.

use std::sync::Arc;

use wasmtime::{Config, Engine, InstanceAllocationStrategy, OptLevel, Strategy};

use super::function_code_cache::FunctionCodes;

/// Whether an engine compiles, or only runs code that another engine compiled.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum EngineRole {
    Compile(TargetMachine),
    Run,
}

/// The machines that code is compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TargetMachine {
    /// This machine, with all features of its CPU.
    This,
    /// Any machine of this architecture.
    Any,
}

impl TargetMachine {
    /// How well code is optimised. A pod compiles a module at its start and calls it a few times, so that the compiler
    /// takes more time than the calls; the code of an image is compiled once for many pods. Figures are in
    /// docs/decisions/0003-compile-child.md.
    fn opt_level(self) -> OptLevel {
        match self {
            Self::This => OptLevel::None,
            Self::Any => OptLevel::Speed,
        }
    }
}

/// Creates an engine. Both roles share every setting that code depends on, so that the running engine loads what the
/// compiling engine wrote; wasmtime checks this at each load. Code does not depend on how well other code is optimised.
pub(super) fn engine(role: EngineRole) -> wasmtime::Result<Engine> {
    Engine::new(&config(role)?)
}

/// An engine that compiles for `machine` and takes the code of known functions from `codes`. The result is the same
/// code.
pub(super) fn engine_with_known_functions(
    codes: Arc<FunctionCodes>,
    machine: TargetMachine,
) -> wasmtime::Result<Engine> {
    let mut config = config(EngineRole::Compile(machine))?;
    config.enable_incremental_compilation(codes)?;
    Engine::new(&config)
}

fn config(role: EngineRole) -> wasmtime::Result<Config> {
    let mut config = Config::new();
    config
        .wasm_component_model(true)
        // No toolchain for hooks emits these proposals. Without them, modules can reach less code of the runtime.
        .wasm_tail_call(false)
        .wasm_memory64(false)
        .wasm_relaxed_simd(false)
        .wasm_custom_page_sizes(false)
        .wasm_wide_arithmetic(false)
        .epoch_interruption(true)
        // A pool would make a call a third faster; it needs a feature of wasmtime (docs/decisions/0008-fresh-instance.md).
        .allocation_strategy(InstanceAllocationStrategy::OnDemand)
        .max_wasm_stack(512 << 10)
        .async_stack_size(2 << 20)
        .wasm_backtrace_max_frames(std::num::NonZeroUsize::new(16));
    if let EngineRole::Compile(machine) = role {
        if machine == TargetMachine::Any {
            // With an explicit target, wasmtime does not use features that only this CPU may have.
            config.target(&format!("{}-unknown-linux-gnu", std::env::consts::ARCH))?;
        }
        config
            .strategy(Strategy::Cranelift)
            .cranelift_opt_level(machine.opt_level())
            .parallel_compilation(true);
    } else {
        config.enable_compiler(false);
    }
    Ok(config)
}
