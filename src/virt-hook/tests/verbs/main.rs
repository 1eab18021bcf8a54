//! The verbs of `virt-hook`, run as authors of hooks type them.
#![allow(clippy::unwrap_used)]

mod all_verbs;
mod bench;
mod check;
mod check_migration_and_libvirt;
mod compare_vmis_not_run;
mod compare_with_original;
mod compare_without_original;
mod compile;
mod compiled_module_cache;
mod completions;
mod deploy;
mod deploy_refusals;
mod dev;
mod directories_of_hooks;
mod doctor_and_man;
#[path = "../support/example_modules.rs"]
mod example_modules;
mod granted_dirs;
#[path = "../support/handwritten_module.rs"]
mod handwritten_module;
mod image;
mod inspect;
mod instance_types;
mod libvirt_tools;
mod misspelt_paths;
mod new;
mod new_makefiles;
mod pod_facts;
mod policy_check;
mod run;
#[path = "../support/served_sidecar/mod.rs"]
mod served_sidecar;
mod sign_and_verify;
#[path = "../support/signing_key.rs"]
mod signing_key;
mod strangers_modules;
mod test_case_errors;
mod test_case_files;
mod test_case_inputs;
mod test_expectations;
mod test_update;
mod unconfined_compiling;
mod user_with_precious_files;
#[path = "../support/virt_hook_program.rs"]
mod virt_hook_program;

use std::fs;
use std::path::{Path, PathBuf};

use example_modules::EVERY_POINT_POLICY;
use virt_hook_program::{ProgramOutput, program, text};

fn virt_hook(arguments: &[&str]) -> ProgramOutput {
    program().args(arguments).output().unwrap().into()
}

/// The module of the smbios example.
fn smbios() -> PathBuf {
    example_modules::example("smbios-hook")
}

/// A VMI that the smbios example acts on.
const VMI: &str = "metadata:\n  name: vm\n  namespace: ns\n  annotations:\n    \
    smbios.vm.kubevirt.io/baseBoardManufacturer: Radical Edward\n    do: nothing\nspec:\n  \
    domain:\n    devices: {}\n    memory: {guest: 64Mi}\n";

/// Writes [`VMI`] as `vmi.yaml`.
fn vmi(directory: &Path) -> PathBuf {
    write(directory, "vmi.yaml", VMI)
}

/// Writes a file, and creates its directory.
fn write(directory: &Path, name: &str, content: &str) -> PathBuf {
    let path = directory.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, content).unwrap();
    path
}
