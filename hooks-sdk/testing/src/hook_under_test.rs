//! The hook under test, which is called natively or as a module.

mod config_and_pod_facts;
mod output_checks;
mod wasmtime_call;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use hook_host::wasm::{Answer, Call, CallContext, Module};
use hook_host::{Description, Invocation, MigrationParameters};

use crate::call_result::{CallResult, EditedDevice, EditedDomain, Refusal};
use crate::error::Error;
use crate::module_build::{Part, Target};
use crate::module_cache::{build_and_load, load};
use crate::native_hook_call::{self, Body};
use crate::pod_facts::PodFacts;

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
            body: native_hook_call::body::<H>,
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
    /// that the hook does not declare is denied.
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
                native_hook_call::call(*body, &description.name, &self.context, &self.pod, call)
            }
            Implementation::Module { module, .. } => {
                wasmtime_call::call(module, &self.context, &self.pod, call)
            }
        };
        CallResult {
            result: ran.result.and_then(read),
            log: ran.log,
            duration: ran.duration,
            peak_memory: ran.peak_memory,
        }
    }
}
