//! Changes and ejects the media of CD-ROM drives.

use domain::reconcile::MediumChange;

use super::Reconciliation;
use super::change_results::ChangeResult;
use super::hotplugged_image_check::{Access, why_not_ready};
use crate::manager::command_error::CommandError;

impl Reconciliation<'_> {
    pub(super) async fn change_medium(
        &self,
        change: &MediumChange,
    ) -> Result<ChangeResult, CommandError> {
        if let Some(medium) = &change.medium
            && let Some(wait) = why_not_ready(medium, Access::Read).await?
        {
            return Ok(ChangeResult::Waits(wait));
        }
        self.update_device("changing the medium of a drive", change.xml.clone())
            .await
    }
}
