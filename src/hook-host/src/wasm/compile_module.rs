//! Compiles a module to an artifact, in a compile child or in this process.

use std::fs::File;
use std::io::{Read, Seek, Write};

use super::Compiler;
use super::compile_child;
use super::compile_error::CompileError;
use super::compile_job::{CompileJob, CompileOutcome};
use super::engine_config::TargetMachine;
use super::run_compile_child::{start_child, wait_for_child};
use crate::Limits;

/// Compiles a module within `limits`.
pub(super) async fn compile(
    compiler: &Compiler,
    job: CompileJob<'_>,
    limits: &Limits,
) -> Result<CompileOutcome, CompileError> {
    match compiler {
        Compiler::Child { program } => {
            let child_error = |source| CompileError::Child {
                program: program.clone(),
                source,
            };
            let child = start_child(program, job, limits).map_err(child_error)?;
            wait_for_child(program, child, limits).await
        }
        Compiler::None => Err(CompileError::NotCompiledAhead),
        Compiler::InProcess => {
            let child_error = |source| CompileError::Child {
                program: "this process".into(),
                source,
            };
            let mut module = job.module.try_clone().map_err(child_error)?;
            let mut artifact = job.artifact.try_clone().map_err(child_error)?;
            let machine = job.machine;
            let task = tokio::task::spawn_blocking(move || {
                compile_in_process(&mut module, &mut artifact, machine)
            });
            task.await
                .map_err(|error| CompileError::Refused(error.to_string()))?
        }
    }
}

fn compile_in_process(
    module: &mut File,
    artifact: &mut File,
    machine: TargetMachine,
) -> Result<CompileOutcome, CompileError> {
    let mut bytes = Vec::new();
    module
        .rewind()
        .and_then(|()| module.read_to_end(&mut bytes))
        .map_err(|error| CompileError::Refused(error.to_string()))?;
    let code = compile_child::compile(&bytes, machine).map_err(CompileError::Refused)?;
    artifact
        .write_all(&code)
        .map_err(|error| CompileError::NotWritten(error.to_string()))?;
    Ok(CompileOutcome {
        peak_memory: None,
        reused_functions: 0,
    })
}

#[cfg(test)]
mod tests {
    use super::super::load_error::LoadError;
    use super::*;

    #[test]
    fn a_full_disk_is_not_a_fault_of_the_module() {
        let mut module = tempfile::tempfile().unwrap();
        module
            .write_all(&wat::parse_str("(component)").unwrap())
            .unwrap();
        let mut full = File::options().write(true).open("/dev/full").unwrap();
        let compiled = compile_in_process(&mut module, &mut full, TargetMachine::This);
        let Err(source) = compiled else {
            panic!("written");
        };
        assert!(matches!(source, CompileError::NotWritten(_)), "{source}");
        let error = LoadError::Compile {
            path: "x.wasm".into(),
            size: 7,
            source,
        };
        assert!(!error.is_fault_of_module());
    }
}
