//! The trait that a hook implements.

use crate::host::note_provided_method;
use crate::{CloudInit, Description, Device, Domain, HookPoint, Migration, Result, Vmi};

/// A hook, with a method for each of its hook points.
///
/// Every call gets a new value; nothing is kept between calls. Hooks must be idempotent: as a sidecar, a hook gets its
/// own output again.
///
/// ```
/// use hooks_sdk::{Context, Description, Domain, Hook, HookPoint, Result, Vmi, veto};
///
/// #[derive(Default)]
/// struct IoThreads;
///
/// impl Hook for IoThreads {
///     const HOOK_POINTS: &'static [HookPoint] = &[HookPoint::PreStart, HookPoint::OnDefineDomain];
///
///     fn describe(description: Description) -> Description {
///         description.with_paths(["/domain/iothreads"])
///     }
///
///     fn pre_start(&self, vmi: &Vmi) -> Result {
///         match vmi.vcpus() {
///             ..=64 => Ok(()),
///             count => Err(veto(format!("{count} vCPUs are more than 64"))),
///         }
///     }
///
///     fn on_define_domain(&self, vmi: &Vmi, domain: &mut Domain) -> Result {
///         let Some(threads) = vmi.annotation("example.com/io-threads") else {
///             return Ok(());
///         };
///         let threads: u8 = threads.parse().context("example.com/io-threads")?;
///         domain.set("iothreads", threads.to_string())?;
///         Ok(())
///     }
/// }
///
/// hooks_sdk::export!(IoThreads);
///
/// # fn main() -> Result {
/// # use hooks_sdk::native_call;
/// let vmi = r#"{"metadata": {"annotations": {"example.com/io-threads": "2"}}}"#;
/// native_call::pre_start::<IoThreads>(vmi)?;
/// let domain = native_call::on_define_domain::<IoThreads>(vmi, "<domain/>")?;
/// assert_eq!(domain, "<domain><iothreads>2</iothreads></domain>");
/// # Ok(())
/// # }
/// ```
pub trait Hook: Default {
    /// The hook points at which this hook is called. Methods of other hook points are never called: a test that
    /// [`export!`](crate::export!) makes fails for those that the hook has.
    const HOOK_POINTS: &'static [HookPoint];

    /// Describes the hook. The given description has the crate's name and version and
    /// priority 0; change it if needed.
    fn describe(description: Description) -> Description {
        description
    }

    /// Before anything is prepared.
    ///
    /// # Errors
    /// A veto or a failure of the hook: the virtual machine does not start.
    fn pre_start(&self, vmi: &Vmi) -> Result {
        let _ = vmi;
        note_provided_method();
        Ok(())
    }

    /// Before the cloud-init image is written; only if the VMI has cloud-init data.
    ///
    /// # Errors
    /// A veto or a failure of the hook: the virtual machine does not start.
    fn pre_cloud_init_iso(&self, vmi: &Vmi, cloud_init: &mut CloudInit) -> Result {
        let _ = (vmi, cloud_init);
        note_provided_method();
        Ok(())
    }

    /// Before the domain is defined, once per boot. libvirt has assigned no addresses yet.
    ///
    /// # Errors
    /// A veto or a failure of the hook: the virtual machine does not start.
    fn on_define_domain(&self, vmi: &Vmi, domain: &mut Domain) -> Result {
        let _ = (vmi, domain);
        note_provided_method();
        Ok(())
    }

    /// Before a disk, an interface or a host device is attached to the running virtual machine.
    ///
    /// # Errors
    /// A veto or a failure of the hook: this device is not attached, and nothing else happens.
    fn on_attach_device(&self, vmi: &Vmi, device: &mut Device) -> Result {
        let _ = (vmi, device);
        note_provided_method();
        Ok(())
    }

    /// Before the virtual machine migrates to another node.
    ///
    /// # Errors
    /// A veto or a failure of the hook: the migration ends, and the virtual machine goes on where it is.
    fn pre_migration_source(&self, vmi: &Vmi, migration: &mut Migration) -> Result {
        let _ = (vmi, migration);
        note_provided_method();
        Ok(())
    }

    /// When the launcher ends, even if there never was a domain.
    ///
    /// # Errors
    /// A failure of the hook, which is logged.
    fn shutdown(&self) -> Result {
        note_provided_method();
        Ok(())
    }
}
