//! Changes and ejects the media of CD-ROM drives.

use domain::reconcile::MediumChange;
use libvirt::{Affect, Domain};

use super::{ChangeResult, Reconciliation, image_readiness};
use crate::libvirt_client::COMMAND;
use crate::manager::error::OpError;

impl Reconciliation<'_> {
    pub(super) async fn change_medium(
        &self,
        change: &MediumChange,
    ) -> Result<ChangeResult, OpError> {
        if let Some(medium) = &change.medium
            && !image_readiness::is_ready(medium).await?
        {
            return Ok(ChangeResult::NotReady);
        }
        self.update("changing the medium of a drive", change.xml.clone())
            .await
    }

    /// Updates a device of the running domain and of its definition, or of the running domain alone if the definition does
    /// not have it.
    pub(super) async fn update(
        &self,
        what: &'static str,
        xml: String,
    ) -> Result<ChangeResult, OpError> {
        let update =
            move |domain: &dyn Domain| match domain.update_device(&xml, Affect::LiveAndConfig) {
                Err(error) if error.is_device_missing() => domain.update_device(&xml, Affect::Live),
                result => result,
            };
        self.vm
            .client
            .on(self.domain, what, COMMAND, update)
            .await?;
        Ok(ChangeResult::Yes)
    }
}
