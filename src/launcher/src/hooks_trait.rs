//! The hooks as a trait, which tests implement. Hook points that an implementation leaves out do nothing.

use hook_host::{
    AttachTime, Chain, CloudInitDocuments, HookError, Invocation, MigrationParameters, Plugins,
    Provenance, Run,
};

/// Runs every hook point.
#[tonic::async_trait]
pub trait Hooks: Send + Sync {
    /// Checks that the VM can start with these plugins; called first.
    async fn admit(&self, vmi: &str, plugins: &Plugins) -> Result<(), HookError> {
        let _ = (vmi, plugins);
        Ok(())
    }
    /// Before anything is prepared; may veto.
    async fn pre_start(&self, invocation: &Invocation, vmi: &str) -> Result<Vec<Run>, HookError> {
        let _ = (invocation, vmi);
        Ok(Vec::new())
    }
    /// Before the cloud-init image is written.
    async fn pre_cloud_init_iso(
        &self,
        invocation: &Invocation,
        vmi: &str,
        documents: CloudInitDocuments,
    ) -> Result<(CloudInitDocuments, Vec<Run>), HookError> {
        let _ = (invocation, vmi);
        Ok((documents, Vec::new()))
    }
    /// Before the domain is defined: the hooks, and after them the plugins.
    async fn on_define_domain(
        &self,
        invocation: &Invocation,
        vmi: &str,
        xml: String,
        plugins: &Plugins,
    ) -> Result<(String, Vec<Run>), HookError> {
        let _ = (invocation, vmi, plugins);
        Ok((xml, Vec::new()))
    }
    /// Before libvirt creates a domain that arrives by a migration: modules, and what the operator opts in.
    async fn on_incoming_domain(
        &self,
        invocation: &Invocation,
        vmi: &str,
        xml: String,
        plugins: &Plugins,
    ) -> Result<(String, Vec<Run>), HookError> {
        let _ = (invocation, vmi, plugins);
        Ok((xml, Vec::new()))
    }
    /// Before a device is attached to the running VM. `time` is shared by all devices of a request.
    async fn on_attach_device(
        &self,
        invocation: &Invocation,
        vmi: &str,
        xml: String,
        time: &AttachTime,
    ) -> Result<(String, Provenance), HookError> {
        let _ = (invocation, vmi, time);
        Ok((xml, Provenance::default()))
    }
    /// The time that hooks have at the attaches of one request.
    fn attach_time(&self) -> AttachTime {
        AttachTime::default()
    }
    /// Before the VM migrates to another node.
    async fn pre_migration_source(
        &self,
        invocation: &Invocation,
        vmi: &str,
        parameters: MigrationParameters,
    ) -> Result<(MigrationParameters, Vec<Run>), HookError> {
        let _ = (invocation, vmi);
        Ok((parameters, Vec::new()))
    }
    /// The hook that libvirt's refusal of the domain is about, and the path that the hook changed.
    fn named_in(&self, refusal: &str) -> Option<(String, String)> {
        let _ = refusal;
        None
    }
    /// When the launcher ends. What goes wrong is logged by the hooks' host.
    async fn shutdown(&self, invocation: &Invocation) -> Vec<Run> {
        let _ = invocation;
        Vec::new()
    }
    /// Whether the operator wants a Kubernetes event for each hook of a boot.
    fn publishes_applied_events(&self) -> bool {
        true
    }
    /// Logs one line per hook about its calls so far. `phase` is the VM's: `started` or `ended`.
    fn log_calls(&self, phase: &str) {
        let _ = phase;
    }
}

#[tonic::async_trait]
impl Hooks for Chain {
    async fn admit(&self, vmi: &str, plugins: &Plugins) -> Result<(), HookError> {
        Chain::admit(self, vmi, plugins)
    }

    async fn pre_start(&self, invocation: &Invocation, vmi: &str) -> Result<Vec<Run>, HookError> {
        Chain::pre_start(self, invocation, vmi).await
    }

    async fn pre_cloud_init_iso(
        &self,
        invocation: &Invocation,
        vmi: &str,
        documents: CloudInitDocuments,
    ) -> Result<(CloudInitDocuments, Vec<Run>), HookError> {
        Chain::pre_cloud_init_iso(self, invocation, vmi, documents).await
    }

    async fn on_define_domain(
        &self,
        invocation: &Invocation,
        vmi: &str,
        xml: String,
        plugins: &Plugins,
    ) -> Result<(String, Vec<Run>), HookError> {
        self.define(invocation, vmi, xml, plugins).await
    }

    async fn on_incoming_domain(
        &self,
        invocation: &Invocation,
        vmi: &str,
        xml: String,
        plugins: &Plugins,
    ) -> Result<(String, Vec<Run>), HookError> {
        Chain::on_incoming_domain(self, invocation, vmi, xml, plugins).await
    }

    async fn on_attach_device(
        &self,
        invocation: &Invocation,
        vmi: &str,
        xml: String,
        time: &AttachTime,
    ) -> Result<(String, Provenance), HookError> {
        let (xml, runs) = Chain::on_attach_device(self, invocation, vmi, xml, time).await?;
        Ok((xml, Provenance::of(&runs)))
    }

    async fn pre_migration_source(
        &self,
        invocation: &Invocation,
        vmi: &str,
        parameters: MigrationParameters,
    ) -> Result<(MigrationParameters, Vec<Run>), HookError> {
        Chain::pre_migration_source(self, invocation, vmi, parameters).await
    }

    fn attach_time(&self) -> AttachTime {
        Chain::attach_time(self)
    }

    fn named_in(&self, refusal: &str) -> Option<(String, String)> {
        let provenance = self.provenance();
        let (hook, path) = provenance.named_in(refusal)?;
        Some((hook.to_owned(), path.to_owned()))
    }

    async fn shutdown(&self, invocation: &Invocation) -> Vec<Run> {
        Chain::shutdown(self, invocation).await
    }

    fn publishes_applied_events(&self) -> bool {
        Chain::publishes_applied_events(self)
    }

    fn log_calls(&self, phase: &str) {
        self.metrics().log(phase);
    }
}
