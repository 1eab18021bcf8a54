//! The input of a hook point, and the verified output of a hook.

use std::sync::Arc;

use super::verify_device::AttachedDevice;
use super::verify_domain::Domain;
use crate::MigrationParameters;
use crate::cloud_init::CloudInit;
use crate::hook_body::HookInput;
use crate::record::HookPayload;

/// The input of a hook, with the parsed domain that its output is compared with.
#[derive(Clone, Copy)]
pub(super) enum Input<'a> {
    PreStart,
    CloudInit(&'a CloudInit),
    Domain {
        domain: &'a Arc<Domain>,
        xml: &'a str,
    },
    Device {
        device: &'a Arc<AttachedDevice>,
        xml: &'a str,
    },
    Migration(&'a MigrationParameters),
    Shutdown,
}

/// The verified output of a hook.
pub(super) enum Output {
    Nothing,
    CloudInit(CloudInit),
    Domain {
        domain: Arc<Domain>,
        xml: String,
    },
    Device {
        device: Arc<AttachedDevice>,
        xml: String,
    },
    Migration(MigrationParameters),
}

impl<'a> Input<'a> {
    pub(super) fn for_body(self) -> HookInput<'a> {
        match self {
            Self::PreStart => HookInput::PreStart,
            Self::CloudInit(data) => HookInput::CloudInit(data),
            Self::Domain { xml, .. } => HookInput::Domain(xml),
            Self::Device { xml, .. } => HookInput::Device(xml),
            Self::Migration(parameters) => HookInput::Migration(parameters),
            Self::Shutdown => HookInput::Shutdown,
        }
    }

    /// The input in the form that modules get, for the record.
    pub(super) fn payload(self) -> Option<HookPayload> {
        match self {
            Self::CloudInit(data) => Some(HookPayload::Documents(data.documents())),
            Self::Domain { xml, .. } => Some(HookPayload::DomainXml(xml.to_owned())),
            Self::Device { xml, .. } => Some(HookPayload::DeviceXml(xml.to_owned())),
            Self::Migration(parameters) => Some(HookPayload::Parameters(parameters.to_texts())),
            Self::PreStart | Self::Shutdown => None,
        }
    }

    pub(super) fn data_source(self) -> Option<String> {
        match self {
            Self::CloudInit(data) => Some(data.data_source().to_owned()),
            _ => None,
        }
    }
}
