//! A hook that can be called, natively or as a module.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use domain_xml::grant::{Checker, Permission};
use domain_xml::{Document, diff};
use hook_host::Invocation;
use hook_host::wasm::{Answer, Call, CallError, Context, Description, Module};

use super::build::{Part, Target};
use super::loaded::{Error, block_on, built, load};
use super::native::{self, Body};
use super::outcome::{Defined, Ran, Refusal};

/// A hook under test: plain Rust, or a module in the real host.
pub struct Hook {
    subject: Subject,
    context: Context,
}

enum Subject {
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
    /// The hook as plain Rust; `testing::native!(MyHook)` knows name and version. Panics when its
    /// description is none.
    #[track_caller]
    pub fn native<H: crate::Hook>(name: &str, version: &str) -> Hook {
        let described = H::describe(crate::Description::new(name, version, H::HOOK_POINTS));
        let description = match Description::parse(&described.to_json()) {
            Ok(description) => description,
            Err(error) => panic!("{error}"),
        };
        Hook::of(Subject::Native {
            body: native::body::<H>,
            description,
        })
    }

    /// Builds the crate in `manifest_dir` for wasm32-wasip2 with profile `hook`, in a target
    /// directory of its own, and loads it. Once per process.
    pub fn build(manifest_dir: impl AsRef<Path>) -> Result<Hook, Error> {
        Hook::built(manifest_dir.as_ref(), Part::Library, Target::Wasi)
    }

    /// The same without WASI: for wasm32-unknown-unknown.
    pub fn build_without_wasi(manifest_dir: impl AsRef<Path>) -> Result<Hook, Error> {
        Hook::built(manifest_dir.as_ref(), Part::Library, Target::Bare)
    }

    /// The same as [`Hook::build`] for an example of that crate, which must be a `cdylib`.
    pub fn build_example(manifest_dir: impl AsRef<Path>, name: &str) -> Result<Hook, Error> {
        let part = Part::Example(name.to_owned());
        Hook::built(manifest_dir.as_ref(), part, Target::Wasi)
    }

    fn built(dir: &Path, part: Part, target: Target) -> Result<Hook, Error> {
        let (module, path) = built(dir, part, target)?;
        Ok(Hook::of(Subject::Module { module, path }))
    }

    /// Loads a module that is already built.
    pub fn load(path: impl AsRef<Path>) -> Result<Hook, Error> {
        let path = path.as_ref().to_owned();
        let module = load(&path)?;
        Ok(Hook::of(Subject::Module { module, path }))
    }

    fn of(subject: Subject) -> Hook {
        Hook {
            subject,
            context: Context::default(),
        }
    }

    /// Configures the hook as whoever deploys it would. Panics when the hook does not wish for the
    /// key: it would not get it.
    #[must_use]
    #[track_caller]
    pub fn with_config(mut self, key: &str, value: &str) -> Hook {
        let wishes = self.description().wishes.as_ref();
        let wished = wishes.is_some_and(|wishes| wishes.config.iter().any(|own| own == key));
        assert!(
            wished,
            "the hook does not wish for the configuration key {key:?}: add it with \
             Description::with_config"
        );
        self.context.config.insert(key.to_owned(), value.to_owned());
        self
    }

    /// For whom, and why, the hook is called.
    #[must_use]
    pub fn with_invocation(mut self, invocation: Invocation) -> Hook {
        self.context.invocation = invocation;
        self
    }

    /// What the hook says of itself.
    pub fn description(&self) -> &Description {
        match &self.subject {
            Subject::Native { description, .. } => description,
            Subject::Module { module, .. } => module.description(),
        }
    }

    /// The built module; none natively.
    pub fn path(&self) -> Option<&Path> {
        match &self.subject {
            Subject::Native { .. } => None,
            Subject::Module { path, .. } => Some(path),
        }
    }

    /// Calls `pre-start`.
    pub fn pre_start(&self, vmi: &str) -> Ran<()> {
        self.call(&Call::PreStart { vmi }, |_| Ok(()))
    }

    /// Calls `pre-cloud-init-iso` with these documents; gives all of them back by name.
    pub fn pre_cloud_init_iso(
        &self,
        vmi: &str,
        data_source: &str,
        documents: &[(&str, &str)],
    ) -> Ran<BTreeMap<String, String>> {
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
                other => Err(Refusal::BadOutput(format!("no documents but {other:?}"))),
            },
        )
    }

    /// Calls `on-define-domain`, and holds what changed against the hook's wishes.
    pub fn on_define_domain(&self, vmi: &str, domain_xml: &str) -> Ran<Defined> {
        self.call(
            &Call::OnDefineDomain { vmi, domain_xml },
            |answer| match answer {
                Answer::DomainXml(xml) => self.defined(domain_xml, xml),
                other => Err(Refusal::BadOutput(format!("no domain XML but {other:?}"))),
            },
        )
    }

    /// Calls `shutdown`.
    pub fn shutdown(&self) -> Ran<()> {
        self.call(&Call::Shutdown, |_| Ok(()))
    }

    fn call<T>(&self, call: &Call<'_>, read: impl FnOnce(Answer) -> Result<T, Refusal>) -> Ran<T> {
        let ran = match &self.subject {
            Subject::Native { body, description } => {
                native::call(*body, &description.name, &self.context, call)
            }
            Subject::Module { module, .. } => under_wasmtime(module, &self.context, call),
        };
        Ran {
            result: ran.result.and_then(read),
            log: ran.log,
            duration: ran.duration,
            peak_memory: ran.peak_memory,
        }
    }

    fn defined(&self, before: &str, xml: String) -> Result<Defined, Refusal> {
        let parse =
            |xml: &str| Document::parse(xml).map_err(|error| Refusal::BadOutput(error.to_string()));
        let (before, after) = (parse(before)?, parse(&xml)?);
        let changes = diff(&before, &after);
        let wishes = self.description().wishes.as_ref();
        let patterns = wishes.map_or(&[][..], |wishes| &wishes.paths);
        let mut checker = Checker::new(patterns, &before, &after);
        for change in &changes {
            if let Permission::Refused(refusal) = checker.permits(change) {
                let remedy = refusal.hint.map_or_else(
                    || format!("no wish can allow it ({:?})", refusal.reason),
                    |hint| format!("wish for it with Description::with_paths([{hint:?}])"),
                );
                let text = format!("the hook may not change {}: {remedy}", refusal.path);
                return Err(Refusal::Denied(text));
            }
        }
        Ok(Defined { xml, changes })
    }
}

fn under_wasmtime(module: &Module, context: &Context, call: &Call<'_>) -> Ran<Answer> {
    match block_on(module.call(context, call)) {
        Ok(called) => Ran {
            result: called.result.map_err(Refusal::from),
            log: called.log,
            duration: called.duration,
            peak_memory: called.peak_memory,
        },
        Err(error) => Ran {
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
