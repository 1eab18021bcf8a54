//! `virt-hook inspect`: shows a module's description, interfaces, size, compile cost and policy.

mod minimal_policy;
mod module_report;

use std::path::PathBuf;

use anyhow::{Context, anyhow};
use clap::Args;
use sha2::{Digest, Sha256};

use crate::cached_compilation;
use crate::interactive_compile;
use crate::module_file_size::module_file_size;
use crate::temporary_directory::TemporaryDirectory;
use crate::verb_failure::Failure;
use crate::verbs::sign_and_verify::{DateInModule, module_bytes};
pub(crate) use minimal_policy::MinimalPolicy;
pub(crate) use module_report::{InterfaceReport, ModuleReport};

pub(crate) const HELP: &str = "\
Examples:
  virt-hook inspect smbios.wasm
  virt-hook inspect smbios.wasm --json | jq -r .result.sha256
  virt-hook inspect smbios.wasm --policy-only > cases/policy.yaml

Exit codes:
  0  the module is a hook; standard output describes it
  2  invalid command line, or the file is not a hook of a supported version; standard error says why
  3  error of this machine";

/// Arguments of `virt-hook inspect`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The module
    #[arg(value_name = "WASM")]
    module: PathBuf,
    /// Print only the minimal operator's policy that the module needs
    #[arg(long)]
    policy_only: bool,
}

/// Loads the module as a launcher would and reports its properties.
pub(crate) fn run(arguments: &Arguments) -> Result<ModuleReport, Failure> {
    let path = &arguments.module;
    module_file_size(path).map_err(Failure::Usage)?;
    let content = module_bytes(path)?;
    let temp_dir = TemporaryDirectory::new()
        .context("making a temporary directory")
        .map_err(Failure::Internal)?;
    let loaded = cached_compilation::load_measured(path, &temp_dir.path().join("compiled"))?;
    let (module, compile_cost) = loaded.map_err(interactive_compile::unusable)?;
    // The report is about one content: the date, which loading does not read, and the rest.
    if format!("{:x}", Sha256::digest(&content)) != module.digest() {
        let error = anyhow!("{}: it was changed while it was read", path.display());
        return Err(Failure::Internal(error));
    }
    let size = content.len() as u64;
    let mut report = ModuleReport::new(&module, size, compile_cost.cost.as_ref());
    report.date = DateInModule::of(&content);
    report.is_policy_only = arguments.policy_only;
    Ok(report)
}
