//! The trait `HookBody` of everything that can be called at a hook point: a WASM module, a gRPC sidecar, a plugin's
//! sidecar, or a module in a replay.

use std::time::Duration;

use futures_util::future::BoxFuture;

use crate::cloud_init::{CloudInit, CloudInitAnswer};
use crate::fixed_clock_and_random::Determinism;
use crate::pod_facts::{PodFactEntry, PodFactSource};
use crate::policy::EffectiveSettings;
use crate::printable::{MAX_MESSAGE, printable, utf8};
use crate::{HookError, HookPoint, Invocation, Limits, LogLine, MigrationParameters};

/// One kind of hook. The chain orders hooks, checks their output and records their runs without
/// knowing the kind.
pub(crate) trait HookBody: Send + Sync {
    /// Calls the hook within the limits of `call`. The output is not verified yet.
    fn call_hook<'a>(&'a self, call: HookCall<'a>) -> BoxFuture<'a, HookReport>;

    /// Whether calls have a deadline that is independent of the chain's, as calls of KubeVirt's sidecars have. The
    /// duration of such a call does not count against the chain's deadline.
    fn has_own_deadline(&self) -> bool;

    /// Whether the hook parses and writes the whole domain XML, as KubeVirt's sidecars and plugins do. The XML then
    /// differs in ways that libvirt refuses in a domain that arrives by a migration.
    fn rewrites_document(&self) -> bool;
}

/// One call of a hook.
pub(crate) struct HookCall<'a> {
    pub(crate) invocation: &'a Invocation,
    /// The VMI as JSON.
    pub(crate) vmi: &'a str,
    pub(crate) input: HookInput<'a>,
    /// The settings of this hook.
    pub(crate) settings: &'a EffectiveSettings,
    /// Limits of the whole chain.
    pub(crate) chain_limits: &'a Limits,
    /// The time until the chain's deadline.
    pub(crate) time_left: Duration,
    /// Fixed random numbers and time, if the run is recorded.
    pub(crate) determinism: Option<Determinism>,
    pub(crate) pod: &'a PodFactSource,
}

/// The input of a hook point.
#[derive(Clone, Copy)]
pub(crate) enum HookInput<'a> {
    PreStart,
    CloudInit(&'a CloudInit),
    /// The domain XML.
    Domain(&'a str),
    /// The XML of one device.
    Device(&'a str),
    Migration(&'a MigrationParameters),
    Shutdown,
}

/// The output of a hook before it is verified.
pub(crate) enum HookOutput {
    /// No output: at PreStart, at Shutdown, or at a hook point that this kind of hook does not have.
    Nothing,
    CloudInit(CloudInitAnswer),
    DomainXml(String),
    DeviceXml(String),
    /// Names and values of migration parameters.
    Parameters(Vec<(String, String)>),
}

/// The result of a call, with its log, memory use and pod facts.
pub(crate) struct HookReport {
    pub(crate) result: Result<HookOutput, BodyError>,
    pub(crate) log: Vec<LogLine>,
    /// Peak of the linear memories in bytes; 0 if the hook is not a module.
    pub(crate) peak_memory: usize,
    /// The facts about the pod that the hook asked for.
    pub(crate) facts: Vec<PodFactEntry>,
    /// How long the hook waited for facts about the pod; this time does not count against the hook's deadline.
    pub(crate) waited: Duration,
}

/// Why a call returned no output. [`BodyError::into_hook_error`] adds the hook and the hook point.
pub(crate) enum BodyError {
    Veto(String),
    Failed(String),
    Trap(String),
    /// The hook trapped after it wrote this panic message to its standard error.
    Panic(String),
    /// The call exceeded its own deadline.
    Deadline(Duration),
    /// The chain's deadline left no time for the call.
    ChainDeadline,
    BadInput(String),
    BadOutput(String),
    Sidecar {
        version: String,
        message: String,
    },
    /// The hook cannot be called at all.
    Unusable(Box<HookError>),
}

impl HookOutput {
    /// Decodes the domain XML in the answer of a sidecar.
    pub(crate) fn from_domain_bytes(bytes: Vec<u8>) -> Result<Self, BodyError> {
        match utf8(bytes) {
            Ok(xml) => Ok(Self::DomainXml(xml)),
            Err(error) => Err(BodyError::BadOutput(format!("the domain XML: {error}"))),
        }
    }
}

impl HookReport {
    /// A report without log, memory use and facts, for a hook that is not a module or was not called.
    pub(crate) fn result_only(result: Result<HookOutput, BodyError>) -> Self {
        Self {
            result,
            log: Vec::new(),
            peak_memory: 0,
            facts: Vec::new(),
            waited: Duration::ZERO,
        }
    }
}

impl BodyError {
    /// Replaces the panic message of a hook that reads secret data by a note: the message may contain the data, and log
    /// lines of the hook are withheld too.
    pub(crate) fn without_panic_message(self) -> Self {
        match self {
            Self::Panic(message) => Self::Trap(format!(
                "its last words ({} bytes) are withheld, since it reads cloud-init data; a record with \
                 secrets has them",
                message.len()
            )),
            other => other,
        }
    }

    /// Converts into the error of the hook `hook` at `point`. `chain_deadline` is the limit that `ChainDeadline` names.
    pub(crate) fn into_hook_error(
        self,
        hook: &str,
        point: HookPoint,
        chain_deadline: Duration,
    ) -> HookError {
        let hook = hook.to_owned();
        let printed = |message: String| printable(&message, MAX_MESSAGE);
        match self {
            Self::Veto(message) => HookError::Veto {
                hook,
                point,
                message: printed(message),
            },
            Self::Failed(message) => HookError::Failed {
                hook,
                point,
                message: printed(message),
            },
            Self::Trap(message) | Self::Panic(message) => HookError::Trap {
                hook,
                point,
                message: printed(message),
            },
            Self::Deadline(limit) => HookError::Deadline { hook, point, limit },
            Self::ChainDeadline => HookError::ChainDeadline {
                hook,
                point,
                limit: chain_deadline,
            },
            Self::BadInput(message) => HookError::BadInput {
                hook,
                point,
                message: printed(message),
            },
            Self::BadOutput(message) => HookError::BadOutput {
                hook,
                point,
                message: printed(message),
            },
            Self::Sidecar { version, message } => HookError::Sidecar {
                hook,
                point,
                version,
                message: printed(message),
            },
            Self::Unusable(error) => *error,
        }
    }
}
