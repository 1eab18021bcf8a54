//! The backups and checkpoints of a domain.

use virt_sys as sys;

use super::c_strings_and_errors::{c_string, check, check_pointer};
use super::domain_handle::RealDomain;
use crate::backups_and_checkpoints::Checkpoints;
use crate::error::Result;

impl Checkpoints for RealDomain {
    fn begin_backup(&self, backup_xml: &str, checkpoint_xml: &str) -> Result<()> {
        let backup = c_string("description of the backup", backup_xml)?;
        let checkpoint = c_string("description of the checkpoint", checkpoint_xml)?;
        // SAFETY: the domain is valid, both texts NUL-terminated and alive during the call.
        check(unsafe {
            sys::virDomainBackupBegin(self.as_ptr(), backup.as_ptr(), checkpoint.as_ptr(), 0)
        })
        .map(drop)
    }

    fn redefine_checkpoint(&self, xml: &str) -> Result<()> {
        let xml = c_string("description of the checkpoint", xml)?;
        let flags = sys::VIR_DOMAIN_CHECKPOINT_CREATE_REDEFINE
            | sys::VIR_DOMAIN_CHECKPOINT_CREATE_REDEFINE_VALIDATE;
        // SAFETY: the domain is valid, the text NUL-terminated and alive during the call.
        let checkpoint = check_pointer(unsafe {
            sys::virDomainCheckpointCreateXML(self.as_ptr(), xml.as_ptr(), flags)
        })?;
        // SAFETY: the checkpoint's reference is the caller's, and this is its last use.
        unsafe { sys::virDomainCheckpointFree(checkpoint) };
        Ok(())
    }
}
