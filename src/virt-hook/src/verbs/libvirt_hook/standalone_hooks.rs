//! libvirt's hook on a machine without KubeVirt: the modules of a directory run on an incoming domain.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use domain_xml::Document;
use hook_host::policy::{HostVersions, UnknownVersion};
use hook_host::record::RecordConfig;
use hook_host::{
    CollectConfig, Compiler, Invocation, Plugins, PolicySource, Reason, StandingHooks, collect,
};
use serde_json::json;

use super::domain_stdio::{read_domain, write_domain};
use super::thread_with_deadline::run_with_deadline;
use crate::interactive_compile::HOST_NAME;
use crate::tokio_runtime::runtime;
use crate::verbs::serve::PRECOMPILED_DIR;

/// Deadline of the whole run: libvirt holds the domain's lock meanwhile.
const DEADLINE: Duration = Duration::from_secs(10);

/// The directory of the modules, and what they may do.
#[derive(Debug, Clone, Default, Args)]
pub(super) struct StandaloneArguments {
    /// Run the modules of this directory, one sub-directory per hook, instead of asking a launcher
    #[arg(long, value_name = "DIR")]
    hooks: Option<PathBuf>,
    /// The operator's policy, YAML; without it, modules are granted their wishes, except the dangerous set
    #[arg(long, value_name = "FILE", requires = "hooks")]
    policy: Option<PathBuf>,
    /// Directory of the artifacts that `virt-hook compile` wrote
    #[arg(long, value_name = "DIR", requires = "hooks", default_value = PRECOMPILED_DIR)]
    hook_artifacts: PathBuf,
    /// An annotation that modules see on the VM. May be repeated
    #[arg(long = "annotation", value_name = "KEY=VALUE", requires = "hooks", value_parser = annotation)]
    annotations: Vec<(String, String)>,
    /// Directory for the records of runs, for `virt-hook replay`
    #[arg(long, value_name = "DIR", requires = "hooks")]
    hook_record: Option<PathBuf>,
}

fn annotation(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("it has no `=`")?;
    Ok((key.to_owned(), value.to_owned()))
}

impl StandaloneArguments {
    /// The hooks of this machine, if `--hooks` names some.
    pub(super) fn hooks(&self) -> Option<StandaloneHooks> {
        let hooks = self.hooks.clone()?;
        Some(StandaloneHooks {
            config: CollectConfig {
                standing: StandingHooks::In(hooks),
                deadline: DEADLINE,
                precompiled_dirs: vec![self.hook_artifacts.clone()],
                // libvirt waits for the hooks, and compiling takes seconds.
                compiler: Compiler::None,
                host_name: HOST_NAME.to_owned(),
                policy: match &self.policy {
                    Some(path) => PolicySource::File(path.clone()),
                    None => PolicySource::None,
                },
                versions: HostVersions {
                    unknown: UnknownVersion::Warn,
                    ..HostVersions::default()
                },
                record: self.hook_record.clone().map(|dir| RecordConfig {
                    dir,
                    secrets: false,
                }),
                ..CollectConfig::default()
            },
            annotations: self.annotations.clone(),
        })
    }
}

/// The hooks of a machine whose libvirt runs this program.
pub(super) struct StandaloneHooks {
    config: CollectConfig,
    annotations: Vec<(String, String)>,
}

impl StandaloneHooks {
    /// Passes libvirt's domain through the modules. A change that libvirt refuses on an incoming domain is the module's
    /// failure.
    pub(super) fn pass_domain(self) -> Result<(), String> {
        let change = move || self.change(read_domain()?);
        write_domain(&run_with_deadline(
            DEADLINE,
            "the hooks did not end",
            change,
        )?)
    }

    fn change(self, xml: String) -> Result<String, String> {
        let (invocation, vmi) = self.invocation_and_vmi(&xml)?;
        let runtime = runtime().map_err(|failure| failure.line())?;
        runtime.block_on(async {
            let chain = collect(self.config).await;
            let chain = chain.map_err(|error| error.to_string())?;
            let no_plugins = Plugins::default();
            let result = chain.on_incoming_domain(&invocation, &vmi, xml, &no_plugins);
            let (xml, _) = result.await.map_err(|error| error.to_string())?;
            Ok(xml)
        })
    }

    /// The invocation and the VMI with which modules are called for the domain: libvirt knows only its name and UUID.
    fn invocation_and_vmi(&self, xml: &str) -> Result<(Invocation, String), String> {
        let domain = Document::parse(xml)
            .map_err(|error| format!("the domain on standard input: {error}"))?;
        let text = |name: &str| {
            let child = domain.root().child(name);
            child.map(|child| child.text().trim().to_owned())
        };
        let name = text("name").ok_or("the domain on standard input has no name")?;
        let uid = text("uuid").unwrap_or_default();
        let annotations: serde_json::Map<_, _> = self
            .annotations
            .iter()
            .map(|(key, value)| (key.clone(), json!(value)))
            .collect();
        let vmi = json!({
            "apiVersion": "kubevirt.io/v1",
            "kind": "VirtualMachineInstance",
            "metadata": { "name": name, "uid": uid, "annotations": annotations },
            "spec": { "domain": { "devices": {} } },
        });
        let invocation = Invocation {
            reason: Reason::MigrationTarget,
            namespace: String::new(),
            name: name.clone(),
            uid,
            domain: name,
        };
        Ok((invocation, vmi.to_string()))
    }
}
