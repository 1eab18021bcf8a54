//! The trait that a hook implements.

use crate::host::note_provided_method;
use crate::{CloudInit, Description, Device, Domain, HookPoint, Migration, Result, Vmi};

/// A hook, with a method for each of its hook points.
///
/// Every call gets a new value; nothing is kept between calls.
pub trait Hook: Default {
    /// The hook points at which this hook is called. Methods of other hook points are never called: a test that
    /// [`export!`](crate::export!) makes fails for those that the hook has.
    const HOOK_POINTS: &'static [HookPoint];

    /// Describes the hook. The given description has the crate's name and version and
    /// priority 0; change it if needed.
    fn describe(description: Description) -> Description {
        description
    }

    /// Before anything is prepared. A veto ends the start.
    fn pre_start(&self, vmi: &Vmi) -> Result {
        let _ = vmi;
        note_provided_method();
        Ok(())
    }

    /// Before the cloud-init image is written; only if the VMI has cloud-init data.
    fn pre_cloud_init_iso(&self, vmi: &Vmi, cloud_init: &mut CloudInit) -> Result {
        let _ = (vmi, cloud_init);
        note_provided_method();
        Ok(())
    }

    /// Before the domain is defined, once per boot. libvirt has assigned no addresses yet.
    fn on_define_domain(&self, vmi: &Vmi, domain: &mut Domain) -> Result {
        let _ = (vmi, domain);
        note_provided_method();
        Ok(())
    }

    /// Before a disk, an interface or a host device is attached to the running virtual machine. An error keeps this
    /// device away, and nothing else.
    fn on_attach_device(&self, vmi: &Vmi, device: &mut Device) -> Result {
        let _ = (vmi, device);
        note_provided_method();
        Ok(())
    }

    /// Before the virtual machine migrates to another node. An error ends the migration; the virtual machine goes on
    /// where it is.
    fn pre_migration_source(&self, vmi: &Vmi, migration: &mut Migration) -> Result {
        let _ = (vmi, migration);
        note_provided_method();
        Ok(())
    }

    /// When the launcher ends, even if there never was a domain.
    fn shutdown(&self) -> Result {
        note_provided_method();
        Ok(())
    }
}
