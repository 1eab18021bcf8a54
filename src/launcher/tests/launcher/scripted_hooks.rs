//! Hooks that do what a test says.

use std::sync::Mutex;

use hook_host::{
    AttachTime, CloudInitDocuments, HookError, Invocation, MigrationParameters, Plugins,
    Provenance, Run,
};
use virt_launcher::hooks_trait::Hooks;

/// Hooks that count their calls, and fail or hang as configured.
#[derive(Default)]
pub(crate) struct ScriptedHooks {
    pub(crate) calls: Mutex<Vec<&'static str>>,
    pub(crate) veto: Mutex<Option<String>>,
    /// A domain that arrives by a migration is refused with this message.
    pub(crate) arrival_veto: Mutex<Option<String>>,
    /// The maximum downtime that PreMigrationSource sets.
    pub(crate) max_downtime: Option<u64>,
    pub(crate) hang: bool,
    /// A device with this text in its XML is refused.
    pub(crate) refuse_device: Mutex<Option<String>>,
    pub(crate) omits_applied_events: bool,
    /// What PreStart and OnDefineDomain return.
    pub(crate) runs: Mutex<Vec<Run>>,
    /// The next device that is attached meets this error.
    pub(crate) attach_error: Mutex<Option<HookError>>,
}

impl ScriptedHooks {
    pub(crate) fn count(&self, call: &str) -> usize {
        self.calls
            .lock()
            .unwrap()
            .iter()
            .filter(|made| **made == call)
            .count()
    }

    fn called(&self, call: &'static str) {
        self.calls.lock().unwrap().push(call);
    }
}

#[tonic::async_trait]
impl Hooks for ScriptedHooks {
    async fn pre_start(&self, _: &Invocation, vmi: &str) -> Result<Vec<Run>, HookError> {
        self.called("PreStart");
        assert!(vmi.contains("vm1"));
        if self.hang {
            std::future::pending::<()>().await;
        }
        match self.veto.lock().unwrap().clone() {
            Some(message) => Err(HookError::Veto {
                hook: "policy".into(),
                point: hook_host::HookPoint::PreStart,
                message,
            }),
            None => Ok(self.runs.lock().unwrap().clone()),
        }
    }

    async fn pre_migration_source(
        &self,
        invocation: &Invocation,
        _: &str,
        parameters: MigrationParameters,
    ) -> Result<(MigrationParameters, Vec<Run>), HookError> {
        self.called("PreMigrationSource");
        assert_eq!(invocation.reason.name(), "migration-source");
        match self.veto.lock().unwrap().clone() {
            Some(message) => Err(HookError::Veto {
                hook: "policy".into(),
                point: hook_host::HookPoint::PreMigrationSource,
                message,
            }),
            None => {
                let changed = MigrationParameters {
                    bandwidth: 7 << 20,
                    max_downtime: self.max_downtime.unwrap_or(parameters.max_downtime),
                    ..parameters
                };
                Ok((changed, self.runs.lock().unwrap().clone()))
            }
        }
    }

    async fn on_incoming_domain(
        &self,
        _: &Invocation,
        _: &str,
        xml: String,
        _: &Plugins,
    ) -> Result<(String, Vec<Run>), HookError> {
        self.called("OnDefineDomain of an arrival");
        match self.arrival_veto.lock().unwrap().clone() {
            Some(message) => Err(HookError::Veto {
                hook: "policy".into(),
                point: hook_host::HookPoint::OnDefineDomain,
                message,
            }),
            None => Ok((xml, self.runs.lock().unwrap().clone())),
        }
    }

    async fn pre_cloud_init_iso(
        &self,
        _: &Invocation,
        _: &str,
        documents: CloudInitDocuments,
    ) -> Result<(CloudInitDocuments, Vec<Run>), HookError> {
        self.called("PreCloudInitIso");
        Ok((documents, Vec::new()))
    }

    async fn on_define_domain(
        &self,
        _: &Invocation,
        _: &str,
        xml: String,
        _: &Plugins,
    ) -> Result<(String, Vec<Run>), HookError> {
        self.called("OnDefineDomain");
        Ok((xml, self.runs.lock().unwrap().clone()))
    }

    async fn on_attach_device(
        &self,
        invocation: &Invocation,
        _: &str,
        xml: String,
        _: &AttachTime,
    ) -> Result<(String, Provenance), HookError> {
        self.called("OnAttachDevice");
        assert_eq!(invocation.reason.name(), "hotplug");
        if let Some(error) = self.attach_error.lock().unwrap().take() {
            return Err(error);
        }
        let refused = self.refuse_device.lock().unwrap().clone();
        match refused {
            Some(device) if xml.contains(&device) => Err(HookError::Veto {
                hook: "policy".into(),
                point: hook_host::HookPoint::OnAttachDevice,
                message: format!("no {device}"),
            }),
            _ => Ok((
                xml.replace("</hostdev>", "<rom bar='off'/></hostdev>"),
                Provenance::default(),
            )),
        }
    }

    fn named_in(&self, refusal: &str) -> Option<(String, String)> {
        let named = refusal.contains("rainbow");
        named.then(|| ("painter".into(), "/domain/devices/video".into()))
    }

    fn publishes_applied_events(&self) -> bool {
        !self.omits_applied_events
    }

    async fn shutdown(&self, _: &Invocation) -> Vec<Run> {
        self.called("Shutdown");
        Vec::new()
    }
}
