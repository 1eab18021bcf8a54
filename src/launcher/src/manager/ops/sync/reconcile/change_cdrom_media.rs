//! Changes and ejects the media of CD-ROM drives.

use domain::reconcile::MediumChange;

use super::{ChangeResult, Reconciliation, image_readiness};
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
        self.update_device("changing the medium of a drive", change.xml.clone())
            .await
    }
}
