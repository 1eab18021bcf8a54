//! The hook under test, which is called natively or as a module.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use domain_xml::Document;
use domain_xml::host::{Change, diff};
use hook_host::policy::permission::{Checker, Permission};
use hook_host::wasm::{Answer, Call, CallContext, CallError, Module};
use hook_host::{
    AttachedDevice, Description, DeviceError, Invocation, MigrationParameters, PodPattern,
};

use crate::call_result::{CallResult, EditedDevice, EditedDomain, Refusal};
use crate::error::Error;
use crate::module_build::{Part, Target};
use crate::module_cache::{block_on, build_and_load, load};
use crate::native::{self, Body};
use crate::pod_facts::{MountedPod, PodFacts};

/// The annotation of Multus.
const NETWORK_STATUS: &str = "k8s.v1.cni.cncf.io/network-status";
/// The annotation of KubeVirt.
const NETWORK_INFO: &str = "kubevirt.io/network-info";

/// A hook under test: plain Rust, or a module in the real host.
pub struct Hook {
    implementation: Implementation,
    context: CallContext,
    pod: PodFacts,
}

enum Implementation {
    Native {
        body: Body,
        description: Description,
    },
    Module {
        module: Module,
        path: PathBuf,
    },
}

impl Hook {
    /// The hook as plain Rust; [`native!`](crate::native!) passes name and version. Panics if its
    /// description is invalid.
    #[track_caller]
    pub fn native<H: hooks_sdk::Hook>(name: &str, version: &str) -> Hook {
        let described = H::describe(hooks_sdk::Description::new(name, version, H::HOOK_POINTS));
        let description = match Description::parse(&described.to_json()) {
            Ok(description) => description,
            Err(error) => panic!("{error}"),
        };
        Hook::of(Implementation::Native {
            body: native::body::<H>,
            description,
        })
    }

    /// Builds the crate in `manifest_dir` for wasm32-wasip2 with profile `hook`, in a target
    /// directory of its own, and loads it. Once per process.
    pub fn build(manifest_dir: impl AsRef<Path>) -> Result<Hook, Error> {
        Hook::build_part(manifest_dir.as_ref(), Part::Library, Target::Wasi)
    }

    /// The same without WASI: for wasm32-unknown-unknown.
    pub fn build_without_wasi(manifest_dir: impl AsRef<Path>) -> Result<Hook, Error> {
        Hook::build_part(manifest_dir.as_ref(), Part::Library, Target::Bare)
    }

    /// The same as [`Hook::build`] for an example of that crate, which must be a `cdylib`.
    pub fn build_example(manifest_dir: impl AsRef<Path>, name: &str) -> Result<Hook, Error> {
        let part = Part::Example(name.to_owned());
        Hook::build_part(manifest_dir.as_ref(), part, Target::Wasi)
    }

    fn build_part(dir: &Path, part: Part, target: Target) -> Result<Hook, Error> {
        let (module, path) = build_and_load(dir, part, target)?;
        Ok(Hook::of(Implementation::Module { module, path }))
    }

    /// Loads a module that is already built.
    pub fn load(path: impl AsRef<Path>) -> Result<Hook, Error> {
        let path = path.as_ref().to_owned();
        let module = load(&path)?;
        Ok(Hook::of(Implementation::Module { module, path }))
    }

    fn of(implementation: Implementation) -> Hook {
        Hook {
            implementation,
            context: CallContext::default(),
            pod: PodFacts::default(),
        }
    }

    /// Sets a configuration value, as in `hook.yaml`. Panics if the hook does not wish for
    /// the key, since it would not get the value.
    #[must_use]
    #[track_caller]
    pub fn with_config(mut self, key: &str, value: &str) -> Hook {
        let wishes = self.description().wishes.as_ref();
        let is_wished_for = wishes.is_some_and(|wishes| wishes.config.iter().any(|own| own == key));
        assert!(
            is_wished_for,
            "the hook does not wish for the configuration key {key:?}: add it with \
             Description::with_config"
        );
        self.context.config.insert(key.to_owned(), value.to_owned());
        self
    }

    /// Sets an annotation of the pod. Panics if the hook wishes for no fact that needs it.
    #[must_use]
    #[track_caller]
    pub fn with_pod_annotation(mut self, key: &str, value: &str) -> Hook {
        let name = format!("annotations/{key}");
        self.assert_wished(&name, |wish| {
            let text = wish.as_str();
            let is_fact_of_annotation = match key {
                NETWORK_STATUS => text.starts_with("network-status/") || text == "default-network",
                NETWORK_INFO => text == "network-info",
                _ => false,
            };
            wish.matches(&name) || is_fact_of_annotation
        });
        let annotations = &mut self.pod.annotations;
        annotations.insert(key.to_owned(), value.to_owned());
        self
    }

    /// Sets a label of the pod. Panics if the hook does not wish for it.
    #[must_use]
    #[track_caller]
    pub fn with_pod_label(mut self, key: &str, value: &str) -> Hook {
        let name = format!("labels/{key}");
        self.assert_wished(&name, |wish| wish.matches(&name));
        self.pod.labels.insert(key.to_owned(), value.to_owned());
        self
    }

    /// Sets Multus' annotation `k8s.v1.cni.cncf.io/network-status`, a JSON list. Panics if the hook wishes for no
    /// network.
    #[must_use]
    #[track_caller]
    pub fn with_network_status(self, json: &str) -> Hook {
        self.with_pod_annotation(NETWORK_STATUS, json)
    }

    #[track_caller]
    fn assert_wished(&self, name: &str, covers: impl Fn(&PodPattern) -> bool) {
        let wishes = self.description().wishes.as_ref();
        let is_wished_for = wishes.is_some_and(|wishes| wishes.pod.iter().any(covers));
        assert!(
            is_wished_for,
            "the hook does not wish for {name:?}: add it with Description::with_pod"
        );
    }

    /// Sets the context of the calls.
    #[must_use]
    pub fn with_invocation(mut self, invocation: Invocation) -> Hook {
        self.context.invocation = invocation;
        self
    }

    /// The hook's description.
    pub fn description(&self) -> &Description {
        match &self.implementation {
            Implementation::Native { description, .. } => description,
            Implementation::Module { module, .. } => module.description(),
        }
    }

    /// The path of the module; `None` for a native hook.
    pub fn path(&self) -> Option<&Path> {
        match &self.implementation {
            Implementation::Native { .. } => None,
            Implementation::Module { path, .. } => Some(path),
        }
    }

    /// Calls `pre-start`.
    pub fn pre_start(&self, vmi: &str) -> CallResult<()> {
        self.call(&Call::PreStart { vmi }, |_| Ok(()))
    }

    /// Calls `pre-cloud-init-iso` with these documents, and returns all documents by name.
    pub fn pre_cloud_init_iso(
        &self,
        vmi: &str,
        data_source: &str,
        documents: &[(&str, &str)],
    ) -> CallResult<BTreeMap<String, String>> {
        let documents: Vec<(String, String)> = documents
            .iter()
            .map(|(name, text)| ((*name).to_owned(), (*text).to_owned()))
            .collect();
        self.call(
            &Call::PreCloudInitIso {
                vmi,
                data_source,
                documents: &documents,
            },
            |answer| match answer {
                Answer::Documents(documents) => Ok(documents.into_iter().collect()),
                other => Err(Refusal::BadOutput(format!(
                    "expected documents, got {other:?}"
                ))),
            },
        )
    }

    /// Calls `on-define-domain`, and checks the changes against the hook's wishes.
    pub fn on_define_domain(&self, vmi: &str, domain_xml: &str) -> CallResult<EditedDomain> {
        self.call(
            &Call::OnDefineDomain { vmi, domain_xml },
            |answer| match answer {
                Answer::DomainXml(xml) => self.check_domain(domain_xml, xml),
                other => Err(Refusal::BadOutput(format!(
                    "expected domain XML, got {other:?}"
                ))),
            },
        )
    }

    /// Calls `on-attach-device`, and checks the changes against the hook's wishes.
    pub fn on_attach_device(&self, vmi: &str, device_xml: &str) -> CallResult<EditedDevice> {
        self.call(
            &Call::OnAttachDevice { vmi, device_xml },
            |answer| match answer {
                Answer::DeviceXml(xml) => self.check_device(device_xml, xml),
                other => Err(Refusal::BadOutput(format!(
                    "expected device XML, got {other:?}"
                ))),
            },
        )
    }

    /// Calls `pre-migration-source` with these parameters, and returns those that the hook leaves or makes. A change
    /// that the hook does not wish for is denied.
    pub fn pre_migration_source(
        &self,
        vmi: &str,
        parameters: &MigrationParameters,
    ) -> CallResult<MigrationParameters> {
        let texts = parameters.to_texts();
        let call = Call::PreMigrationSource {
            vmi,
            parameters: &texts,
        };
        self.call(&call, |answer| match answer {
            Answer::Parameters(texts) => self.check_parameters(parameters, &texts),
            other => Err(Refusal::BadOutput(format!(
                "expected parameters, got {other:?}"
            ))),
        })
    }

    fn check_parameters(
        &self,
        before: &MigrationParameters,
        texts: &[(String, String)],
    ) -> Result<MigrationParameters, Refusal> {
        let after = before.with_texts(texts);
        let after = after.map_err(|error| Refusal::BadOutput(error.to_string()))?;
        let wishes = self.description().wishes.as_ref();
        let wished_for = wishes.map_or(&[][..], |wishes| &wishes.migration);
        let mut differences = before.differences(&after).into_iter();
        match differences.find(|(parameter, ..)| !wished_for.contains(parameter)) {
            Some((parameter, ..)) => Err(Refusal::Denied(format!(
                "the hook may not change the migration's {parameter}: wish for it with \
                 Description::with_migration([MigrationParameter::{parameter:?}])"
            ))),
            None => Ok(after),
        }
    }

    /// Calls `shutdown`.
    pub fn shutdown(&self) -> CallResult<()> {
        self.call(&Call::Shutdown, |_| Ok(()))
    }

    fn call<T>(
        &self,
        call: &Call<'_>,
        read: impl FnOnce(Answer) -> Result<T, Refusal>,
    ) -> CallResult<T> {
        let ran = match &self.implementation {
            Implementation::Native { body, description } => {
                native::call(*body, &description.name, &self.context, &self.pod, call)
            }
            Implementation::Module { module, .. } => {
                under_wasmtime(module, &self.context, &self.pod, call)
            }
        };
        CallResult {
            result: ran.result.and_then(read),
            log: ran.log,
            duration: ran.duration,
            peak_memory: ran.peak_memory,
        }
    }

    fn check_device(&self, before: &str, xml: String) -> Result<EditedDevice, Refusal> {
        let bad_output = |error: DeviceError| Refusal::BadOutput(error.to_string());
        let parse = |xml: &str| AttachedDevice::parse(xml).map_err(bad_output);
        let (before, after) = (parse(before)?, parse(&xml)?);
        before.same_identity(&after).map_err(bad_output)?;
        let changes = self.within_wishes(before.as_domain(), after.as_domain())?;
        Ok(EditedDevice { xml, changes })
    }

    fn check_domain(&self, before: &str, xml: String) -> Result<EditedDomain, Refusal> {
        let parse =
            |xml: &str| Document::parse(xml).map_err(|error| Refusal::BadOutput(error.to_string()));
        let (before, after) = (parse(before)?, parse(&xml)?);
        let changes = self.within_wishes(&before, &after)?;
        Ok(EditedDomain { xml, changes })
    }

    /// The changes, if the hook's wishes permit them.
    fn within_wishes(&self, before: &Document, after: &Document) -> Result<Vec<Change>, Refusal> {
        let changes = diff(before, after);
        let wishes = self.description().wishes.as_ref();
        let patterns = wishes.map_or(&[][..], |wishes| &wishes.paths);
        let mut checker = Checker::new(patterns, before, after);
        for change in &changes {
            if let Permission::Refused(refusal) = checker.permits(change) {
                let remedy = refusal.suggested_pattern.map_or_else(
                    || format!("no wish can allow it ({:?})", refusal.reason),
                    |pattern| format!("wish for it with Description::with_paths([{pattern:?}])"),
                );
                let text = format!("the hook may not change {}: {remedy}", refusal.path);
                return Err(Refusal::Denied(text));
            }
        }
        Ok(changes)
    }
}

/// Runs the module with the pod's facts in files, as the kubelet writes them.
fn under_wasmtime(
    module: &Module,
    context: &CallContext,
    pod: &PodFacts,
    call: &Call<'_>,
) -> CallResult<Answer> {
    let mounted = match MountedPod::of(pod, module.description()) {
        Ok(mounted) => mounted,
        Err(error) => {
            return CallResult {
                result: Err(Refusal::Failure(error.to_string())),
                log: Vec::new(),
                duration: Duration::ZERO,
                peak_memory: 0,
            };
        }
    };
    let context = CallContext {
        interfaces: BTreeSet::from(["virt-hook:hooks/pod".to_owned()]),
        pod: mounted.access.clone(),
        ..context.clone()
    };
    match block_on(module.call(&context, call)) {
        Ok(called) => CallResult {
            result: called.result.map_err(Refusal::from),
            log: called.log,
            duration: called.duration,
            peak_memory: called.peak_memory,
        },
        Err(error) => CallResult {
            result: Err(Refusal::Failure(Error::Runtime(error).to_string())),
            log: Vec::new(),
            duration: Duration::ZERO,
            peak_memory: 0,
        },
    }
}

impl From<CallError> for Refusal {
    fn from(error: CallError) -> Refusal {
        match error {
            CallError::Veto(text) => Refusal::Veto(text),
            other => Refusal::Failure(other.to_string()),
        }
    }
}
