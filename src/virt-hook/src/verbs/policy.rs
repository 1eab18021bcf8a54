//! `virt-hook policy check`: what an operator's policy allows, and whether modules get what they declare.

use std::path::{Path, PathBuf};
use std::slice;

use anyhow::Context;
use clap::{Args, Subcommand};
use hook_host::PolicySource;
use hook_host::policy::{OperatorPolicy, PolicySummary};
use serde::Serialize;

use crate::hook_module::HookModule;
use crate::module_chain::{HookOptions, ModuleCode};
use crate::output::{Report, Style, TerminalEscaped};
use crate::temporary_directory::TemporaryDirectory;
use crate::tokio_runtime::runtime;
use crate::verb_failure::Failure;
use crate::verbs::inspect::MinimalPolicy;
use crate::{cached_compilation, interactive_compile, module_chain, module_discovery};

pub(crate) const HELP: &str = "\
Examples:
  virt-hook policy check hook-policy.yaml
  virt-hook policy check hook-policy.yaml --module smbios.wasm --namespace infra

Exit codes:
  0  the policy is valid, and grants the modules all their wishes
  1  the policy does not grant all wishes of a module; standard output lists the others
  2  invalid command line or policy; standard error has the line and column
  3  error of this machine";

/// Arguments of `virt-hook policy`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Show what a policy allows and does not restrict, and whether it grants the wishes of modules
    #[command(after_help = HELP)]
    Check(CheckArguments),
}

#[derive(Debug, Args)]
struct CheckArguments {
    /// The operator's policy
    #[arg(value_name = "FILE")]
    policy: PathBuf,
    /// A module whose wishes the policy should grant; its hook.yaml is read if beside it. May be repeated
    #[arg(long = "module", value_name = "WASM")]
    modules: Vec<PathBuf>,
    /// The VM's namespace, for the policy's rules
    #[arg(long, value_name = "NAME", default_value = "default")]
    namespace: String,
}

/// A policy, and whether modules get what they declare.
#[derive(Debug, Serialize)]
pub(crate) struct PolicyReport {
    allows: Vec<String>,
    warnings: Vec<WarningReport>,
    modules: Vec<ModulePolicy>,
}

#[derive(Debug, Serialize)]
struct WarningReport {
    place: String,
    text: &'static str,
}

/// A module under the policy.
#[derive(Debug, Serialize)]
struct ModulePolicy {
    module: PathBuf,
    /// The reason why the module is refused; `None` if it runs.
    refused: Option<String>,
    /// Whether a rule makes it a final hook: one that is called after all others, whose changes are sealed.
    #[serde(rename = "final")]
    is_final: bool,
    /// The content of `allow` of the minimal policy with which the module runs.
    needs: MinimalPolicy,
}

/// Reads the policy, and checks the modules under it.
pub(crate) fn run(arguments: &Arguments) -> Result<PolicyReport, Failure> {
    let Action::Check(arguments) = &arguments.action;
    let source = PolicySource::File(arguments.policy.clone());
    let policy = OperatorPolicy::read(&source).map_err(Failure::usage)?;
    let PolicySummary { allows, warnings } =
        policy.map(|policy| policy.summary()).unwrap_or_default();
    let modules = module_discovery::find(&arguments.modules).map_err(Failure::Usage)?;
    let temp_dir = TemporaryDirectory::new()
        .context("making a temporary directory")
        .map_err(Failure::Internal)?;
    let modules = modules.iter().enumerate().map(|(number, hook)| {
        let work_dir = temp_dir.path().join(number.to_string());
        module_policy(hook, arguments, &work_dir)
    });
    let warnings = warnings.into_iter().map(|warning| WarningReport {
        place: warning.place,
        text: warning.text,
    });
    Ok(PolicyReport {
        allows,
        warnings: warnings.collect(),
        modules: modules.collect::<Result<_, _>>()?,
    })
}

fn module_policy(
    hook: &HookModule,
    arguments: &CheckArguments,
    work_dir: &Path,
) -> Result<ModulePolicy, Failure> {
    let compiled = work_dir.join("compiled");
    std::fs::create_dir_all(work_dir)
        .with_context(|| work_dir.display().to_string())
        .map_err(Failure::Internal)?;
    let loaded = cached_compilation::load(&hook.module, &compiled)?;
    let module = loaded.map_err(Failure::from_load_error);
    let module = module.map_err(|failure| failure.map(interactive_compile::explain_any))?;
    let options = HookOptions {
        policy: PolicySource::File(arguments.policy.clone()),
        namespace: arguments.namespace.clone(),
        code: ModuleCode::Compiled(compiled),
        ..HookOptions::default()
    };
    let chain = runtime()?.block_on(module_chain::collect(
        slice::from_ref(hook),
        work_dir,
        options,
    ));
    let (is_final, refused) = match chain {
        Ok(chain) => (chain.hooks().iter().any(|info| info.is_final), None),
        Err(failure @ Failure::Internal(_)) => return Err(failure),
        Err(refusal) => (false, Some(refusal.to_string())),
    };
    Ok(ModulePolicy {
        module: hook.module.clone(),
        refused,
        is_final,
        needs: MinimalPolicy::for_module(module.description()),
    })
}

impl Report for PolicyReport {
    fn text(&self, style: Style) -> String {
        let mut text = String::new();
        for line in &self.allows {
            text += &format!("{}\n", TerminalEscaped(line));
        }
        for WarningReport {
            place,
            text: warning,
        } in &self.warnings
        {
            let mark = style.doubtful("warning");
            text += &format!("{mark}  {}: {warning}\n", TerminalEscaped(place));
        }
        for module in &self.modules {
            let (file, needs) = (module.module.display().to_string(), module.needs.yaml());
            text += &match &module.refused {
                None => {
                    let last = if module.is_final { " (final)" } else { "" };
                    format!("\n{}  {}{last}\n", style.good("ok"), TerminalEscaped(&file))
                }
                Some(reason) => format!(
                    "\n{}  {}: {}\n",
                    style.bad("refused"),
                    TerminalEscaped(&file),
                    TerminalEscaped(reason)
                ),
            };
            text += &format!("The minimal policy that it needs:\n\n{needs}");
        }
        text
    }

    fn complaint(&self) -> Option<String> {
        let refused = self
            .modules
            .iter()
            .filter(|module| module.refused.is_some());
        match refused.count() {
            0 => None,
            1 => Some("a module is not granted all its wishes".to_owned()),
            count => Some(format!("{count} modules are not granted all their wishes")),
        }
    }
}
