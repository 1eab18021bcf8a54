//! A module as it is deployed: behind `hook.yaml` and the operator's policy.

use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

use hook_host::{Chain, CloudInitDocuments, CollectConfig, Invocation, PolicySource, Run, collect};
use serde_json::Value;

use super::loaded::{artifacts, block_on};

/// Nobody waits for a virtual machine here, and a module of Python compiles for long on a busy machine.
const COLLECTED: Duration = Duration::from_secs(600);

/// A module, alone in a hooks directory, with the files that others put around it. Each call
/// collects it anew, as a start of a virtual machine does.
#[derive(Debug, Clone)]
pub struct Deployment {
    module: PathBuf,
    hook_yaml: Option<String>,
    policy: Option<String>,
}

/// What a deployed hook made of its input, and the record of its run.
pub type Deployed<T> = Result<(T, Vec<Run>), String>;

impl Deployment {
    /// Of this module, with neither file.
    pub fn new(module: impl Into<PathBuf>) -> Deployment {
        Deployment {
            module: module.into(),
            hook_yaml: None,
            policy: None,
        }
    }

    /// With the virtual machine owner's file beside it.
    #[must_use]
    pub fn with_hook_yaml(mut self, text: impl Into<String>) -> Deployment {
        self.hook_yaml = Some(text.into());
        self
    }

    /// With the operator's policy.
    #[must_use]
    pub fn with_policy(mut self, text: impl Into<String>) -> Deployment {
        self.policy = Some(text.into());
        self
    }

    /// Collects the hook and calls `pre-start`. The error is what the virtual machine's owner is
    /// told.
    pub fn pre_start(&self, vmi: &str) -> Deployed<()> {
        self.with_chain(vmi, |chain, invocation| async move {
            let runs = chain.pre_start(&invocation, vmi).await;
            runs.map(|runs| ((), runs))
                .map_err(|error| error.to_string())
        })
    }

    /// Collects the hook and calls `on-define-domain`.
    pub fn on_define_domain(&self, vmi: &str, domain_xml: &str) -> Deployed<String> {
        self.with_chain(vmi, |chain, invocation| async move {
            let xml = domain_xml.to_owned();
            let defined = chain.on_define_domain(&invocation, vmi, xml).await;
            defined.map_err(|error| error.to_string())
        })
    }

    /// Collects the hook and calls `pre-cloud-init-iso` with user and network data; gives both
    /// back.
    pub fn pre_cloud_init_iso(
        &self,
        vmi: &str,
        user_data: &str,
        network_data: &str,
    ) -> Deployed<(String, String)> {
        let data = serde_json::json!({
            "DataSource": "noCloud", "UserData": user_data, "NetworkData": network_data
        });
        let documents = CloudInitDocuments {
            data_source: "noCloud".to_owned(),
            cloud_init_data_json: data.to_string(),
        };
        self.with_chain(vmi, |chain, invocation| async move {
            let done = chain.pre_cloud_init_iso(&invocation, vmi, documents).await;
            let (documents, runs) = done.map_err(|error| error.to_string())?;
            let data: Value = serde_json::from_str(&documents.cloud_init_data_json)
                .map_err(|error| error.to_string())?;
            let text = |name: &str| data[name].as_str().unwrap_or_default().to_owned();
            Ok(((text("UserData"), text("NetworkData")), runs))
        })
    }

    /// Collects the hook and calls `shutdown`; what went wrong is in the runs.
    pub fn shutdown(&self, vmi: &str) -> Deployed<()> {
        self.with_chain(vmi, |chain, invocation| async move {
            Ok(((), chain.shutdown(&invocation).await))
        })
    }

    fn with_chain<T, F: Future<Output = Deployed<T>>>(
        &self,
        vmi: &str,
        call: impl FnOnce(Chain, Invocation) -> F,
    ) -> Deployed<T> {
        let place = tempfile::tempdir().map_err(|error| error.to_string())?;
        let config = self
            .lay_out(place.path())
            .map_err(|error| format!("{}: {error}", self.module.display()))?;
        let invocation = invocation(vmi);
        let config = CollectConfig {
            namespace: invocation.namespace.clone(),
            ..config
        };
        let done = block_on(async {
            let chain = collect(config).await.map_err(|error| error.to_string())?;
            call(chain, invocation).await
        });
        done.map_err(|error| error.to_string())?
    }

    fn lay_out(&self, place: &Path) -> io::Result<CollectConfig> {
        let hook = place.join("hooks/hook");
        fs::create_dir_all(&hook)?;
        if let Some(text) = &self.hook_yaml {
            fs::write(hook.join("hook.yaml"), text)?;
        }
        let policy = place.join("hook-policy.yaml");
        if let Some(text) = &self.policy {
            fs::write(&policy, text)?;
        }
        fs::copy(&self.module, hook.join("hook.wasm"))?;
        Ok(CollectConfig {
            hooks_dir: place.join("hooks"),
            expected: 1,
            deadline: COLLECTED,
            artifacts_dir: artifacts(&self.module)?,
            policy: match self.policy {
                Some(_) => PolicySource::File(policy),
                None => PolicySource::None,
            },
            ..CollectConfig::default()
        })
    }
}

/// The boot of this VMI.
fn invocation(vmi: &str) -> Invocation {
    let vmi = crate::Vmi::new(vmi);
    Invocation {
        namespace: vmi.namespace().to_owned(),
        name: vmi.name().to_owned(),
        uid: vmi.uid().to_owned(),
        domain: format!("{}_{}", vmi.namespace(), vmi.name()),
        ..Invocation::default()
    }
}
