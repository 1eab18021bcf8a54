//! Hooks whose results a test sets.

use std::sync::Mutex;
use std::time::Duration;

use domain_xml::host::{Change, ChangeKind};
use hook_host::{
    AttachTime, CloudInitDocuments, FailurePolicy, HookError, HookIdentity, HookPoint, Invocation,
    MigrationParameters, Outcome, Plugins, Provenance, Run,
};
use virt_launcher::hooks_trait::Hooks;

/// Hooks that count their calls, and return, veto, fail or hang as configured.
#[derive(Default)]
pub(crate) struct ScriptedHooks {
    pub(crate) calls: Mutex<Vec<&'static str>>,
    /// The message with which PreStart and PreMigrationSource refuse.
    pub(crate) veto: Mutex<Option<String>>,
    /// The message with which OnDefineDomain refuses a domain that arrives by a migration.
    pub(crate) arrival_veto: Mutex<Option<String>>,
    /// The maximum downtime that PreMigrationSource sets, in milliseconds.
    pub(crate) max_downtime: Option<u64>,
    /// PreStart never returns.
    pub(crate) hangs_at_pre_start: bool,
    /// OnAttachDevice refuses a device that has this text in its XML.
    pub(crate) refused_device: Mutex<Option<String>>,
    /// The events of applied hooks are not published.
    pub(crate) omits_applied_events: bool,
    /// The runs that PreStart, PreMigrationSource and OnDefineDomain return.
    pub(crate) runs: Mutex<Vec<Run>>,
    /// The error of the next OnAttachDevice.
    pub(crate) next_attach_error: Mutex<Option<HookError>>,
}

impl ScriptedHooks {
    /// The number of calls at a hook point.
    pub(crate) fn count(&self, call: &str) -> usize {
        self.calls
            .lock()
            .unwrap()
            .iter()
            .filter(|recorded| **recorded == call)
            .count()
    }

    fn record_call(&self, call: &'static str) {
        self.calls.lock().unwrap().push(call);
    }
}

/// A successful run of a hook that changed the domain's title.
pub(crate) fn successful_run_at(point: HookPoint) -> Run {
    Run {
        hook: "hook-sidecar-0".into(),
        identity: HookIdentity {
            name: "smbios".into(),
            version: "1.2.0".into(),
            digest: "ab".repeat(32),
        },
        hook_point: point,
        uncalled_points: Vec::new(),
        is_final: false,
        changes: vec![Change::new(
            "/domain/title",
            ChangeKind::Inserted,
            None,
            None,
        )],
        duration: Duration::from_millis(1),
        peak_memory: 0,
        outcome: Outcome::Ok,
        failure_policy: FailurePolicy::Fail,
        log: Vec::new(),
    }
}

#[tonic::async_trait]
impl Hooks for ScriptedHooks {
    async fn pre_start(&self, _: &Invocation, vmi: &str) -> Result<Vec<Run>, HookError> {
        self.record_call("PreStart");
        assert!(vmi.contains("vm1"));
        if self.hangs_at_pre_start {
            std::future::pending::<()>().await;
        }
        match self.veto.lock().unwrap().clone() {
            Some(message) => Err(HookError::Veto {
                hook: "policy".into(),
                point: HookPoint::PreStart,
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
        self.record_call("PreMigrationSource");
        assert_eq!(invocation.reason.name(), "migration-source");
        match self.veto.lock().unwrap().clone() {
            Some(message) => Err(HookError::Veto {
                hook: "policy".into(),
                point: HookPoint::PreMigrationSource,
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
        self.record_call("OnDefineDomain of an arrival");
        match self.arrival_veto.lock().unwrap().clone() {
            Some(message) => Err(HookError::Veto {
                hook: "policy".into(),
                point: HookPoint::OnDefineDomain,
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
        self.record_call("PreCloudInitIso");
        Ok((documents, Vec::new()))
    }

    async fn on_define_domain(
        &self,
        _: &Invocation,
        _: &str,
        xml: String,
        _: &Plugins,
    ) -> Result<(String, Vec<Run>), HookError> {
        self.record_call("OnDefineDomain");
        Ok((xml, self.runs.lock().unwrap().clone()))
    }

    async fn on_attach_device(
        &self,
        invocation: &Invocation,
        _: &str,
        xml: String,
        _: &AttachTime,
    ) -> Result<(String, Provenance), HookError> {
        self.record_call("OnAttachDevice");
        assert_eq!(invocation.reason.name(), "hotplug");
        if let Some(error) = self.next_attach_error.lock().unwrap().take() {
            return Err(error);
        }
        let refused = self.refused_device.lock().unwrap().clone();
        match refused {
            Some(device) if xml.contains(&device) => Err(HookError::Veto {
                hook: "policy".into(),
                point: HookPoint::OnAttachDevice,
                message: format!("no {device}"),
            }),
            _ => Ok((
                xml.replace("</hostdev>", "<rom bar='off'/></hostdev>"),
                Provenance::default(),
            )),
        }
    }

    fn hook_of_refusal(&self, refusal: &str) -> Option<(String, String)> {
        let named = refusal.contains("rainbow");
        named.then(|| ("painter".into(), "/domain/devices/video".into()))
    }

    fn publishes_applied_events(&self) -> bool {
        !self.omits_applied_events
    }

    async fn shutdown(&self, _: &Invocation) -> Vec<Run> {
        self.record_call("Shutdown");
        Vec::new()
    }
}
