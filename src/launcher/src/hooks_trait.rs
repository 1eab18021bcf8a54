//! The hooks as a trait, so that tests can implement it. A hook point that an implementation omits does nothing.

use hook_host::{
    AttachTime, Chain, CloudInitDocuments, HookError, Invocation, MigrationParameters, Plugins,
    Provenance, Run,
};

/// Calls the hooks at each hook point.
#[tonic::async_trait]
pub trait Hooks: Send + Sync {
    /// Checks that the VM can start with these plugins. Called before the other hook points of a boot.
    async fn check_plugins(&self, vmi: &str, plugins: &Plugins) -> Result<(), HookError> {
        let _ = (vmi, plugins);
        Ok(())
    }
    /// Calls the hooks before anything of a boot is prepared. A hook may veto the boot.
    async fn pre_start(&self, invocation: &Invocation, vmi: &str) -> Result<Vec<Run>, HookError> {
        let _ = (invocation, vmi);
        Ok(Vec::new())
    }
    /// Calls the hooks before the cloud-init image is written.
    async fn pre_cloud_init_iso(
        &self,
        invocation: &Invocation,
        vmi: &str,
        documents: CloudInitDocuments,
    ) -> Result<(CloudInitDocuments, Vec<Run>), HookError> {
        let _ = (invocation, vmi);
        Ok((documents, Vec::new()))
    }
    /// Calls the hooks, and after them the plugins, before the domain is defined.
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
    /// Calls the hooks before libvirt creates a domain that arrives by a migration: WASM modules, and others if the
    /// operator has enabled them.
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
    /// Calls the hooks before a device is attached to the running VM. `time` limits the hooks of all devices of a
    /// request.
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
    /// The time that the hooks of all devices of one request have together.
    fn attach_time(&self) -> AttachTime {
        AttachTime::default()
    }
    /// Calls the hooks before the VM migrates to another pod.
    async fn pre_migration_source(
        &self,
        invocation: &Invocation,
        vmi: &str,
        parameters: MigrationParameters,
    ) -> Result<(MigrationParameters, Vec<Run>), HookError> {
        let _ = (invocation, vmi);
        Ok((parameters, Vec::new()))
    }
    /// The hook and the path that it changed, if libvirt's refusal of the domain is about that change.
    fn hook_of_refusal(&self, refusal: &str) -> Option<(String, String)> {
        let _ = refusal;
        None
    }
    /// Calls the hooks when the VM or the launcher ends. The hook host logs their errors.
    async fn shutdown(&self, invocation: &Invocation) -> Vec<Run> {
        let _ = invocation;
        Vec::new()
    }
    /// Whether the operator's policy asks for a Kubernetes event about each hook of a boot.
    fn publishes_applied_events(&self) -> bool {
        true
    }
    /// Logs one line per hook about its calls so far. `phase` is that of the VM: `started` or `ended`.
    fn log_calls(&self, phase: &str) {
        let _ = phase;
    }
}

#[tonic::async_trait]
impl Hooks for Chain {
    async fn check_plugins(&self, vmi: &str, plugins: &Plugins) -> Result<(), HookError> {
        Chain::check_plugins(self, vmi, plugins)
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
        self.on_define_domain_with_plugins(invocation, vmi, xml, plugins)
            .await
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

    fn hook_of_refusal(&self, refusal: &str) -> Option<(String, String)> {
        let provenance = self.provenance();
        let (hook, path) = provenance.hook_of_refusal(refusal)?;
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
