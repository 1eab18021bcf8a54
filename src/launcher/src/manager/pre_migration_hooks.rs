//! The hooks of a migration's source, for the job that migrates.

use std::sync::Arc;

use hook_host::{HookError, MigrationParameters, Reason};
use kubevirt_api::vmi::Vmi;

use super::hooks::Hooks;
use super::vm_context::Identity;
use crate::jobs::MigrationHooks;

/// Calls the VM's hooks before it migrates to another node.
pub(super) struct SourceHooks {
    pub(super) hooks: Arc<dyn Hooks>,
    pub(super) identity: Identity,
}

#[tonic::async_trait]
impl MigrationHooks for SourceHooks {
    async fn pre_migration_source(
        &self,
        vmi: &Vmi,
        parameters: MigrationParameters,
    ) -> Result<MigrationParameters, HookError> {
        let invocation = self.identity.invocation(Reason::MigrationSource);
        let hooked = self
            .hooks
            .pre_migration_source(&invocation, vmi.raw_json(), parameters);
        hooked.await
    }
}
