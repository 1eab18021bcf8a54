//! The compile child. Like the real programs, this test program is started again as the compile child, so it has a
//! `main`.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod artifacts;
mod confinement;
#[path = "../fixture/mod.rs"]
mod fixture;
mod limits_and_errors;

use std::path::PathBuf;
use std::process::ExitCode;

use hook_host::wasm::{Call, CallContext, LoadOptions, Module};
use hook_host::{Compiler, compile_child};

fn main() -> ExitCode {
    confinement::run_again_without_seccomp();
    if let Some(code) = compile_child() {
        return code;
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        artifacts::a_compiled_artifact_is_kept_and_loaded_again().await;
        limits_and_errors::memory_and_time_are_limited().await;
        limits_and_errors::errors_distinguish_faults_of_the_module_and_of_the_compiler().await;
        limits_and_errors::a_cancelled_load_ends_the_child().await;
        artifacts::a_precompiled_artifact_of_an_image_is_used().await;
        limits_and_errors::a_module_that_compiles_for_minutes_exceeds_the_limits().await;
        limits_and_errors::modules_that_are_large_in_one_respect_stay_within_the_limits().await;
        limits_and_errors::modules_that_are_compiled_at_once_share_the_memory().await;
        confinement::nothing_is_compiled_without_confinement().await;
        confinement::the_child_is_confined_while_it_compiles().await;
        confinement::the_hashed_bytes_are_compiled_even_if_the_file_is_swapped().await;
        artifacts::compiled_functions_are_kept_for_the_next_build().await;
    });
    println!("compile child: 12 tests passed");
    ExitCode::SUCCESS
}

fn options(dir: &tempfile::TempDir) -> LoadOptions {
    LoadOptions {
        compiler: Compiler::Child {
            program: std::env::current_exe().unwrap(),
        },
        artifacts_dir: Some(dir.path().join("artifacts")),
        ..LoadOptions::default()
    }
}

/// The files in the directory of artifacts.
fn artifacts(dir: &tempfile::TempDir) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir.path().join("artifacts")).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}

const CALL: Call<'_> = Call::OnDefineDomain {
    vmi: "keep",
    domain_xml: fixture::XML,
};

/// Checks that the module runs.
async fn assert_answers(module: &Module) {
    let answer = module.call(&CallContext::default(), &CALL).await;
    assert!(answer.result.is_ok());
}
