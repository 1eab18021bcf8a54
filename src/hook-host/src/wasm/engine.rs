//! The engine: how modules are compiled and run.

use wasmtime::component::Linker;
use wasmtime::{Config, Engine, InstanceAllocationStrategy, OptLevel, Strategy};

use super::state::State;
use super::v0_1;

/// Whether an engine compiles, or only runs what another one compiled.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Compile(Machine),
    Run,
}

/// For which machines code is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Machine {
    /// This one, with all that its processor can.
    This,
    /// Every one of this architecture.
    Any,
}

/// Both roles share every setting that shapes machine code, so that what one compiles the other
/// loads; wasmtime checks that again at each load.
pub(super) fn engine(role: Role) -> wasmtime::Result<Engine> {
    let mut config = Config::new();
    config
        .wasm_component_model(true)
        .epoch_interruption(true)
        // Pooling would save 5 us a call and map a terabyte of addresses.
        .allocation_strategy(InstanceAllocationStrategy::OnDemand)
        .max_wasm_stack(512 << 10)
        .async_stack_size(2 << 20)
        .wasm_backtrace_max_frames(std::num::NonZeroUsize::new(16));
    if let Role::Compile(machine) = role {
        if machine == Machine::Any {
            // A target that is named gets none of the features of the processor at hand.
            config.target(&format!("{}-unknown-linux-gnu", std::env::consts::ARCH))?;
        }
        config
            .strategy(Strategy::Cranelift)
            .cranelift_opt_level(OptLevel::Speed)
            .parallel_compilation(true);
    } else {
        config.enable_compiler(false);
    }
    Engine::new(&config)
}

/// What a component may import: this project's host interface, and WASI with nothing behind it.
pub(super) fn linker(engine: &Engine) -> wasmtime::Result<Linker<State>> {
    let mut linker = Linker::new(engine);
    wasmtime_wasi::p2::add_to_linker_async(&mut linker)?;
    v0_1::add_to_linker(&mut linker)?;
    Ok(linker)
}
