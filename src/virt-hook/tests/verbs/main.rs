//! The verbs of whoever writes a hook, as they are typed.
#![allow(clippy::unwrap_used)]

mod all_verbs;
mod bench;
mod case_errors;
mod check;
mod compare;
mod compile;
mod compiled_module_cache;
mod deploy;
mod dev;
mod doctor_completions_man;
mod image;
mod inspect;
mod misspelt_paths;
mod new;
mod pod_facts;
mod policy_check;
mod run;
#[path = "../served_sidecar/mod.rs"]
mod served_sidecar;
mod sign_and_verify;
mod test_cases;
#[path = "../virt_hook_program/mod.rs"]
mod virt_hook_program;

use std::fs;
use std::path::{Path, PathBuf};

use served_sidecar::POLICY;
use virt_hook_program::{ProgramOutput, program, text};

fn virt_hook(arguments: &[&str]) -> ProgramOutput {
    program().args(arguments).output().unwrap().into()
}

fn smbios() -> PathBuf {
    served_sidecar::example("smbios-hook")
}

const VMI: &str = "metadata:\n  name: vm\n  namespace: ns\n  annotations:\n    \
    smbios.vm.kubevirt.io/baseBoardManufacturer: Radical Edward\n    do: nothing\nspec:\n  \
    domain:\n    devices: {}\n    memory: {guest: 64Mi}\n";

/// A VMI that the smbios example acts on.
fn vmi(directory: &Path) -> PathBuf {
    write(directory, "vmi.yaml", VMI)
}

fn write(directory: &Path, name: &str, content: &str) -> PathBuf {
    let path = directory.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, content).unwrap();
    path
}
