//! Hooks that are collected and called by the launcher's code, as in a pod: they are copied into a temporary hooks
//! directory, and every run is recorded.

use std::fs;
use std::path::Path;

use anyhow::{Context, anyhow};
use hook_host::record::Record;
use hook_host::{
    AttachTime, Chain, CloudInitDocuments, HookError, HookInfo, HookPoint, MigrationParameters,
    Plugins,
};
use tokio::runtime::Runtime;

use crate::hook_module::HookModule;
use crate::inputs::{PodFactsInput, VmiInput};
use crate::interactive_compile;
use crate::module_chain::{self, HookOptions};
use crate::output::RunReport;
use crate::temporary_directory::TemporaryDirectory;
use crate::tokio_runtime::runtime;
use crate::verb_failure::Failure;

const RECORDS_DIR: &str = "records";

/// The advice about a hook that is never called.
pub(crate) const LIST_HOOK_POINT_ADVICE: &str = "list one in its description (in Rust: HOOK_POINTS), and in hookPoints of a hook.yaml that has them";

/// Collected hooks, which can be called.
pub(crate) struct CollectedHooks {
    runtime: Runtime,
    chain: Chain,
    temp_dir: TemporaryDirectory,
    has_pod_facts: bool,
}

/// The results of hooks for a VM.
#[derive(Debug, Clone)]
pub(crate) struct HookResults {
    /// The domain after the last hook.
    pub(crate) xml: String,
    /// Each attached device after the last hook.
    pub(crate) devices: Vec<String>,
    /// The parameters of a migration after the last hook.
    pub(crate) migration: Option<MigrationParameters>,
    /// The cloud-init data after the last hook.
    pub(crate) cloud_init: Option<CloudInitDocuments>,
    /// Every run in order, the one that stopped the chain included.
    pub(crate) runs: Vec<RunReport>,
    /// Whether a hook asked for facts about the pod, and there are none here.
    pub(crate) lacks_pod_facts: bool,
    /// The reason why the VM would not start.
    pub(crate) error: Option<HookError>,
}

impl CollectedHooks {
    /// Collects hooks, and compiles those that the caller has not. Errors are about the modules and their policies.
    pub(crate) fn collect(modules: &[HookModule], options: HookOptions) -> Result<Self, Failure> {
        let temp_dir = TemporaryDirectory::new()
            .context("making a temporary directory")
            .map_err(Failure::Internal)?;
        let options = HookOptions {
            record: Some(temp_dir.path().join(RECORDS_DIR)),
            secrets: true,
            ..options
        };
        let runtime = runtime()?;
        let has_pod_facts = !matches!(options.pod, PodFactsInput::None);
        let chain = runtime.block_on(module_chain::collect(modules, temp_dir.path(), options));
        Ok(Self {
            chain: chain.map_err(|failure| failure.map(interactive_compile::explain_any))?,
            runtime,
            temp_dir,
            has_pod_facts,
        })
    }

    /// Collects the hook sidecar that listens at a socket.
    pub(crate) fn from_socket(socket: &Path) -> Result<Self, Failure> {
        let directory = socket
            .parent()
            .filter(|parent| !parent.as_os_str().is_empty());
        let temp_dir =
            TemporaryDirectory::new_in(directory.unwrap_or(Path::new(".")), ".virt-hook-")
                .with_context(|| format!("making a directory beside {}", socket.display()))
                .map_err(Failure::Internal)?;
        let runtime = runtime()?;
        let records = temp_dir.path().join(RECORDS_DIR);
        let chain = runtime.block_on(module_chain::collect_socket(
            socket,
            temp_dir.path(),
            records,
        ));
        Ok(Self {
            chain: chain?,
            runtime,
            temp_dir,
            // A sidecar has facts of its own.
            has_pod_facts: true,
        })
    }

    /// The collected hooks.
    pub(crate) fn hooks(&self) -> Vec<HookInfo> {
        self.chain.hooks()
    }

    /// Whether any of the hooks is called at a hook point.
    pub(crate) fn are_called_at(&self, point: HookPoint) -> bool {
        let hooks = self.chain.hooks();
        hooks.iter().any(|info| info.priority(point).is_some())
    }

    /// Calls hook points in order. The first veto or failure ends the run.
    pub(crate) fn run(
        &self,
        input: &VmiInput,
        points: &[HookPoint],
    ) -> Result<HookResults, Failure> {
        let mut results = HookResults {
            xml: input.xml.clone(),
            devices: Vec::new(),
            migration: None,
            cloud_init: None,
            runs: Vec::new(),
            lacks_pod_facts: false,
            error: None,
        };
        for point in points {
            let work = call(&self.chain, *point, input, &mut results);
            if let Err(error) = self.runtime.block_on(work)? {
                results.error = Some(error);
                break;
            }
        }
        if self.chain.lacks_record() {
            return Err(Failure::Internal(anyhow!(
                "{}: the hooks' results could not be written, or not in time; TMPDIR can name another directory",
                self.temp_dir.path().display()
            )));
        }
        let records = self.take_records()?;
        let reads_pod = records.iter().any(|record| !record.input.pod.is_empty());
        results.lacks_pod_facts = reads_pod && !self.has_pod_facts;
        results.runs = records.iter().map(RunReport::from).collect();
        Ok(results)
    }

    /// Takes the records written since the last call.
    fn take_records(&self) -> Result<Vec<Record>, Failure> {
        let records = take(&self.temp_dir.path().join(RECORDS_DIR));
        records.map_err(Failure::Internal)
    }
}

/// Calls one hook point. The outer error is about the VMI, the inner one is a hook's.
async fn call(
    chain: &Chain,
    point: HookPoint,
    input: &VmiInput,
    results: &mut HookResults,
) -> Result<Result<(), HookError>, Failure> {
    let (invocation, vmi) = (&input.invocation, input.vmi.as_str());
    let result = match point {
        HookPoint::PreStart => chain.pre_start(invocation, vmi).await.map(drop),
        HookPoint::PreCloudInitIso => {
            let data = input.cloud_init.clone();
            let Some(data) = data.map_err(|error| Failure::refused(anyhow!(error.reason)))? else {
                return Ok(Ok(()));
            };
            let hooked = chain.pre_cloud_init_iso(invocation, vmi, data).await;
            hooked.map(|(data, _)| results.cloud_init = Some(data))
        }
        HookPoint::OnDefineDomain => {
            let xml = input.xml.clone();
            let hooked = match input.is_incoming {
                true => {
                    let no_plugins = Plugins::default();
                    chain
                        .on_incoming_domain(invocation, vmi, xml, &no_plugins)
                        .await
                }
                false => chain.on_define_domain(invocation, vmi, xml).await,
            };
            hooked.map(|(xml, _)| results.xml = xml)
        }
        HookPoint::OnAttachDevice => {
            for device in input.devices.clone() {
                let time = AttachTime::default();
                let hooked = chain.on_attach_device(invocation, vmi, device, &time).await;
                match hooked {
                    Ok((xml, _)) => results.devices.push(xml),
                    Err(error) => return Ok(Err(error)),
                }
            }
            Ok(())
        }
        HookPoint::PreMigrationSource => {
            let parameters = input.migration.clone();
            let hooked = chain
                .pre_migration_source(invocation, vmi, parameters)
                .await;
            hooked.map(|(parameters, _)| results.migration = Some(parameters))
        }
        HookPoint::Shutdown => {
            // Errors are in the runs and do not stop anything.
            chain.shutdown(invocation).await;
            Ok(())
        }
    };
    Ok(result)
}

/// Reads and removes the records in a directory.
fn take(dir: &Path) -> anyhow::Result<Vec<Record>> {
    let entries = fs::read_dir(dir).with_context(|| dir.display().to_string())?;
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    // File names begin with time and serial number, so their order is that of the runs.
    paths.sort();
    let read = |path: &std::path::PathBuf| {
        let record = Record::read(path)?;
        fs::remove_file(path).with_context(|| path.display().to_string())?;
        Ok(record)
    };
    paths.iter().map(read).collect()
}
