//! A module that is deployed as in production, with `hook.yaml` and the operator's policy.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use std::{fs, io};

use hook_host::policy::{HostVersions, UnknownVersion};
use hook_host::{
    AttachTime, Chain, CloudInitDocuments, CollectConfig, Invocation, MigrationParameters,
    PolicySource, Run, WRITE_GRACE, collect,
};
use serde_json::Value;

use crate::current_thread_runtime::block_on;
use crate::module_cache::artifacts;
use crate::pod_facts::PodFacts;

/// Long, since compiling a module of Python takes long on a busy machine.
const COLLECTION_DEADLINE: Duration = Duration::from_secs(600);

/// A module in a hooks directory, with the files of the VM's owner and the operator. Each call
/// collects it again, like a start of a virtual machine.
#[derive(Debug, Clone)]
pub struct Deployment {
    module: PathBuf,
    hook_yaml: Option<String>,
    policy: Option<String>,
    pod: PodFacts,
}

/// The output of a deployed hook with its runs.
pub type DeploymentResult<T> = Result<(T, Vec<Run>), DeploymentError>;

/// Why a deployed hook has no output: the message that the virtual machine's owner gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeploymentError(String);

impl fmt::Display for DeploymentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for DeploymentError {}

fn failed(error: impl fmt::Display) -> DeploymentError {
    DeploymentError(error.to_string())
}

impl Deployment {
    /// A deployment of this module without other files.
    pub fn new(module: impl Into<PathBuf>) -> Deployment {
        Deployment {
            module: module.into(),
            hook_yaml: None,
            policy: None,
            pod: PodFacts::default(),
        }
    }

    /// Adds the `hook.yaml` of the virtual machine's owner.
    #[must_use]
    pub fn with_hook_yaml(mut self, text: impl Into<String>) -> Deployment {
        self.hook_yaml = Some(text.into());
        self
    }

    /// Adds the operator's policy.
    #[must_use]
    pub fn with_policy(mut self, text: impl Into<String>) -> Deployment {
        self.policy = Some(text.into());
        self
    }

    /// Sets the annotations and labels of the pod.
    #[must_use]
    pub fn with_pod(
        mut self,
        annotations: BTreeMap<String, String>,
        labels: BTreeMap<String, String>,
    ) -> Deployment {
        self.pod = PodFacts {
            annotations,
            labels,
        };
        self
    }

    /// Collects the hook and calls `pre-start`.
    pub fn pre_start(&self, vmi: &str) -> DeploymentResult<()> {
        self.with_chain(vmi, |chain, invocation| async move {
            let runs = chain.pre_start(&invocation, vmi).await;
            runs.map(|runs| ((), runs)).map_err(failed)
        })
    }

    /// Collects the hook and calls `on-define-domain`.
    pub fn on_define_domain(&self, vmi: &str, domain_xml: &str) -> DeploymentResult<String> {
        self.with_chain(vmi, |chain, invocation| async move {
            let xml = domain_xml.to_owned();
            let defined = chain.on_define_domain(&invocation, vmi, xml).await;
            defined.map_err(failed)
        })
    }

    /// Collects the hook and calls `on-attach-device` with the XML of one device.
    pub fn on_attach_device(&self, vmi: &str, device_xml: &str) -> DeploymentResult<String> {
        self.with_chain(vmi, |chain, invocation| async move {
            let (xml, time) = (device_xml.to_owned(), AttachTime::default());
            let attached = chain.on_attach_device(&invocation, vmi, xml, &time).await;
            attached.map_err(failed)
        })
    }

    /// Collects the hook and calls `pre-migration-source` with these parameters.
    pub fn pre_migration_source(
        &self,
        vmi: &str,
        parameters: MigrationParameters,
    ) -> DeploymentResult<MigrationParameters> {
        self.with_chain(vmi, |chain, invocation| async move {
            let tuned = chain.pre_migration_source(&invocation, vmi, parameters);
            tuned.await.map_err(failed)
        })
    }

    /// Collects the hook and calls `pre-cloud-init-iso` with user and network data, and returns
    /// both.
    pub fn pre_cloud_init_iso(
        &self,
        vmi: &str,
        user_data: &str,
        network_data: &str,
    ) -> DeploymentResult<(String, String)> {
        let data = serde_json::json!({
            "DataSource": "noCloud", "UserData": user_data, "NetworkData": network_data
        });
        let documents = CloudInitDocuments {
            data_source: "noCloud".to_owned(),
            cloud_init_data_json: data.to_string(),
        };
        self.with_chain(vmi, |chain, invocation| async move {
            let done = chain.pre_cloud_init_iso(&invocation, vmi, documents).await;
            let (documents, runs) = done.map_err(failed)?;
            let data: Value =
                serde_json::from_str(&documents.cloud_init_data_json).map_err(failed)?;
            let text = |name: &str| data[name].as_str().unwrap_or_default().to_owned();
            Ok(((text("UserData"), text("NetworkData")), runs))
        })
    }

    /// Collects the hook and calls `shutdown`. Failures are in the runs.
    pub fn shutdown(&self, vmi: &str) -> DeploymentResult<()> {
        self.with_chain(vmi, |chain, invocation| async move {
            Ok(((), chain.shutdown(&invocation).await))
        })
    }

    fn with_chain<T, F: Future<Output = DeploymentResult<T>>>(
        &self,
        vmi: &str,
        call: impl FnOnce(Chain, Invocation) -> F,
    ) -> DeploymentResult<T> {
        let directory = tempfile::tempdir().map_err(failed)?;
        let config = self
            .write_files(directory.path())
            .map_err(|error| failed(format_args!("{}: {error}", self.module.display())))?;
        let invocation = invocation(vmi);
        let config = CollectConfig {
            namespace: invocation.namespace.clone(),
            ..config
        };
        let done = block_on(async {
            let chain = collect(config).await.map_err(failed)?;
            call(chain, invocation).await
        });
        done.map_err(failed)?
    }

    fn write_files(&self, directory: &Path) -> io::Result<CollectConfig> {
        let hook = directory.join("hooks/hook");
        fs::create_dir_all(&hook)?;
        if let Some(text) = &self.hook_yaml {
            let hook_yaml = hook.join("hook.yaml");
            fs::write(&hook_yaml, text)?;
            mark_complete(&hook_yaml)?;
        }
        let policy = directory.join("hook-policy.yaml");
        if let Some(text) = &self.policy {
            fs::write(&policy, text)?;
        }
        let module = hook.join("hook.wasm");
        fs::copy(&self.module, &module)?;
        mark_complete(&module)?;
        let pod = directory.join("pod-info");
        fs::create_dir_all(&pod)?;
        Ok(CollectConfig {
            pod: self.pod.mount(&pod)?,
            hooks_dir: directory.join("hooks"),
            expected: 1,
            deadline: COLLECTION_DEADLINE,
            artifacts_dir: artifacts(&self.module)?,
            policy: match self.policy {
                Some(_) => PolicySource::File(policy),
                None => PolicySource::None,
            },
            // A test does not know where the hook will run.
            versions: HostVersions {
                unknown: UnknownVersion::Warn,
                ..HostVersions::default()
            },
            ..CollectConfig::default()
        })
    }
}

/// Makes a file so old that it counts as complete: a collection waits before it refuses one that may still be written.
fn mark_complete(file: &Path) -> io::Result<()> {
    fs::File::open(file)?.set_modified(SystemTime::now() - 2 * WRITE_GRACE)
}

/// The invocation for a boot of this VMI.
fn invocation(vmi: &str) -> Invocation {
    let vmi = hooks_sdk::Vmi::new(vmi);
    Invocation {
        namespace: vmi.namespace().to_owned(),
        name: vmi.name().to_owned(),
        uid: vmi.uid().to_owned(),
        domain: format!("{}_{}", vmi.namespace(), vmi.name()),
        ..Invocation::default()
    }
}
