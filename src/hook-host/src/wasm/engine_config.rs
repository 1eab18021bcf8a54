//! The wasmtime engine's configuration.

use std::sync::Arc;

use wasmtime::{Config, Engine, InstanceAllocationStrategy, OptLevel, Strategy};

use super::function_code_cache::FunctionCodes;

/// Whether an engine compiles, or only runs code that another one compiled.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum EngineRole {
    Compile(TargetMachine),
    Run,
}

/// The machines that code is compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TargetMachine {
    /// This machine, with all features of its processor.
    This,
    /// Any machine of this architecture.
    Any,
}

/// Creates an engine. Both roles share every setting that shapes machine code, so that the running
/// engine loads what the compiling engine wrote; wasmtime checks this at each load.
pub(super) fn engine(role: EngineRole) -> wasmtime::Result<Engine> {
    Engine::new(&config(role)?)
}

/// An engine that compiles for this machine, and takes the code of functions that are known from `codes`. The code is the same.
pub(super) fn engine_with(
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
        // Proposals that no toolchain for hooks emits: less code of the runtime that a module can reach.
        .wasm_tail_call(false)
        .wasm_memory64(false)
        .wasm_relaxed_simd(false)
        .wasm_custom_page_sizes(false)
        .wasm_wide_arithmetic(false)
        .epoch_interruption(true)
        // Pooling would save 5 us a call and map a terabyte of addresses.
        .allocation_strategy(InstanceAllocationStrategy::OnDemand)
        .max_wasm_stack(512 << 10)
        .async_stack_size(2 << 20)
        .wasm_backtrace_max_frames(std::num::NonZeroUsize::new(16));
    if let EngineRole::Compile(machine) = role {
        if machine == TargetMachine::Any {
            // With an explicit target, wasmtime does not use the features of this processor.
            config.target(&format!("{}-unknown-linux-gnu", std::env::consts::ARCH))?;
        }
        config
            .strategy(Strategy::Cranelift)
            .cranelift_opt_level(OptLevel::Speed)
            .parallel_compilation(true);
    } else {
        config.enable_compiler(false);
    }
    Ok(config)
}
