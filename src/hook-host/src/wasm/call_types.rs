//! The types of a call of a module: hook point and input, answer, context and report.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use crate::fixed_clock_and_random::Determinism;
use crate::pod_facts::{PodAccess, PodFactEntry};
use crate::{HookPoint, Invocation, Limits, LogLine};

/// A hook point and its input.
#[derive(Debug, Clone)]
pub enum Call<'a> {
    /// The VMI as JSON.
    PreStart {
        /// The VMI as JSON.
        vmi: &'a str,
    },
    /// Cloud-init documents; the hook returns all of them.
    PreCloudInitIso {
        /// The VMI as JSON.
        vmi: &'a str,
        /// `noCloud` or `configDrive`.
        data_source: &'a str,
        /// Names (`user-data`, `network-data`, `meta-data`) and texts.
        documents: &'a [(String, String)],
    },
    /// The domain XML; the hook returns it.
    OnDefineDomain {
        /// The VMI as JSON.
        vmi: &'a str,
        /// The domain XML.
        domain_xml: &'a str,
    },
    /// The XML of a device that is being attached; the hook returns it.
    OnAttachDevice {
        /// The VMI as JSON.
        vmi: &'a str,
        /// The XML of the device.
        device_xml: &'a str,
    },
    /// The parameters of a migration to another node; the hook returns the changed ones, or all.
    PreMigrationSource {
        /// The VMI as JSON.
        vmi: &'a str,
        /// Names and values.
        parameters: &'a [(String, String)],
    },
    /// The launcher is about to exit.
    Shutdown,
}

/// The answer of a hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// No value, at PreStart and Shutdown.
    Done,
    /// All cloud-init documents.
    Documents(Vec<(String, String)>),
    /// The domain XML, not yet validated.
    DomainXml(String),
    /// The XML of the device, not yet validated.
    DeviceXml(String),
    /// Names and values of migration parameters, not yet validated.
    Parameters(Vec<(String, String)>),
}

/// The data that the host gives a hook during a call, and the limits of the call.
#[derive(Debug, Clone, Default)]
pub struct CallContext {
    /// The virtual machine whose hooks are called, and the reason.
    pub invocation: Invocation,
    /// The hook's configuration.
    pub config: BTreeMap<String, String>,
    /// Time left until the chain's deadline, if there is one.
    pub time_left: Option<Duration>,
    /// Limits of this hook; `None` means the limits of the loader.
    pub limits: Option<Limits>,
    /// Directories that the hook may read. The guest sees them under the same paths.
    pub dirs: Vec<PathBuf>,
    /// Directories within which `dirs` are opened: symbolic links in `dirs` may not lead out of them.
    pub dir_roots: Vec<PathBuf>,
    /// Fixed random numbers and time, for a run that can be replayed.
    pub determinism: Option<Determinism>,
    /// Names of the granted optional interfaces, without version (`virt-hook:hooks/NAME`).
    pub interfaces: BTreeSet<String>,
    /// The facts about the pod that the hook may read through the interface `pod`.
    pub pod: PodAccess,
}

/// The result of a call, with its log, duration, memory use and pod facts.
#[derive(Debug, Clone)]
pub struct CallReport {
    /// The hook's answer.
    pub result: Result<Answer, CallError>,
    /// The log lines of the hook, its standard streams included.
    pub log: Vec<LogLine>,
    /// Duration of instantiation and call, host functions included.
    pub duration: Duration,
    /// Peak of all linear memories together, in bytes.
    pub peak_memory: usize,
    /// The facts about the pod that the hook asked for.
    pub facts: Vec<PodFactEntry>,
    /// How long the call waited for facts about the pod; this time does not count against its deadline.
    pub waited: Duration,
}

/// Why a call returned no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The hook vetoed.
    #[error("it refuses: {0}")]
    Veto(String),
    /// The hook reported a failure.
    #[error("it failed: {0}")]
    Failed(String),
    /// The hook trapped or exceeded its memory limit.
    #[error("it crashed: {0}")]
    Trap(String),
    /// The hook trapped after it wrote this panic message to its standard error.
    #[error("it crashed: {0}")]
    Panic(String),
    /// A text of the answer is not UTF-8.
    #[error("its answer: {0}")]
    NotUtf8(String),
    /// The hook exceeded its deadline.
    #[error("it did not answer within {0:?}")]
    Deadline(Duration),
    /// The host could not prepare the call.
    #[error("it was not called: {0}")]
    Host(String),
    /// An input is larger than `Limits::output`.
    #[error("{what} has {size} bytes, more than the {limit} a hook may be given")]
    InputTooLarge {
        /// Which input.
        what: &'static str,
        /// Size of the input in bytes.
        size: usize,
        /// The limit.
        limit: usize,
    },
    /// The answer is larger than `Limits::output`.
    #[error("its answer has {size} bytes, more than the {limit} it may give back")]
    OutputTooLarge {
        /// Size of all texts together in bytes.
        size: usize,
        /// The limit.
        limit: usize,
    },
}

impl Call<'_> {
    /// The hook point.
    #[must_use]
    pub fn point(&self) -> HookPoint {
        match self {
            Self::PreStart { .. } => HookPoint::PreStart,
            Self::PreCloudInitIso { .. } => HookPoint::PreCloudInitIso,
            Self::OnDefineDomain { .. } => HookPoint::OnDefineDomain,
            Self::OnAttachDevice { .. } => HookPoint::OnAttachDevice,
            Self::PreMigrationSource { .. } => HookPoint::PreMigrationSource,
            Self::Shutdown => HookPoint::Shutdown,
        }
    }

    /// Whether the answer is XML.
    pub(super) fn gives_xml(&self) -> bool {
        matches!(
            self.point(),
            HookPoint::OnDefineDomain | HookPoint::OnAttachDevice
        )
    }

    /// Checks the size of the input.
    pub(super) fn check_size(&self, limit: usize) -> Result<(), CallError> {
        let (vmi, what, size) = match self {
            Self::PreStart { vmi } => (*vmi, "the VMI", 0),
            Self::PreCloudInitIso { vmi, documents, .. } => {
                (*vmi, "the cloud-init data", size_of_texts(documents))
            }
            Self::OnDefineDomain { vmi, domain_xml } => (*vmi, "the domain XML", domain_xml.len()),
            Self::OnAttachDevice { vmi, device_xml } => (*vmi, "the device XML", device_xml.len()),
            Self::PreMigrationSource { vmi, .. } => (*vmi, "the VMI", 0),
            Self::Shutdown => return Ok(()),
        };
        for (what, size) in [("the VMI", vmi.len()), (what, size)] {
            if size > limit {
                return Err(CallError::InputTooLarge { what, size, limit });
            }
        }
        Ok(())
    }
}

impl Answer {
    /// Checks the size of the answer.
    pub(super) fn check_size(&self, limit: usize) -> Result<(), CallError> {
        let size = match self {
            Self::Done => 0,
            Self::Documents(texts) | Self::Parameters(texts) => size_of_texts(texts),
            Self::DomainXml(xml) | Self::DeviceXml(xml) => xml.len(),
        };
        if size > limit {
            Err(CallError::OutputTooLarge { size, limit })
        } else {
            Ok(())
        }
    }
}

fn size_of_texts(documents: &[(String, String)]) -> usize {
    documents
        .iter()
        .map(|(name, text)| name.len() + text.len())
        .sum()
}
