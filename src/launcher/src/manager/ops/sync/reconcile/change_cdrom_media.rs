//! Changes and ejects the media of CD-ROM drives.

use domain::reconcile::MediumChange;

use super::{ChangeResult, Reconciliation, hotplugged_image_check};
use crate::manager::command_error::CommandError;

impl Reconciliation<'_> {
    pub(super) async fn change_medium(
        &self,
        change: &MediumChange,
    ) -> Result<ChangeResult, CommandError> {
        if let Some(medium) = &change.medium
            && !hotplugged_image_check::is_ready(medium).await?
        {
            return Ok(ChangeResult::NotReady);
        }
        self.update_device("changing the medium of a drive", change.xml.clone())
            .await
    }
}
