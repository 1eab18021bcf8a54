//! Live migration of a domain.

use virt_sys as sys;

use super::c_strings_and_errors::{c_string, check};
use super::domain_handle::RealDomain;
use super::typed_param_list::TypedParamList;
use crate::error::Result;
use crate::migration::{Migration, MigrationRequest};

impl Migration for RealDomain {
    fn migrate(&self, destination: &str, request: &MigrationRequest) -> Result<()> {
        let destination = c_string("URI of the migration's target", destination)?;
        let mut params = typed_params(request)?;
        let (list, count) = params.as_ptr();
        // SAFETY: the domain is valid, the URI NUL-terminated, and the list has `count` initialised parameters; all
        // live during the call, and libvirt keeps no pointer to them.
        check(unsafe {
            sys::virDomainMigrateToURI3(
                self.as_ptr(),
                destination.as_ptr(),
                list,
                count,
                request.flags.bits(),
            )
        })
        .map(drop)
    }

    fn set_max_downtime(&self, milliseconds: u64) -> Result<()> {
        // SAFETY: the domain is valid.
        check(unsafe { sys::virDomainMigrateSetMaxDowntime(self.as_ptr(), milliseconds, 0) })
            .map(drop)
    }

    fn start_post_copy(&self) -> Result<()> {
        // SAFETY: the domain is valid.
        check(unsafe { sys::virDomainMigrateStartPostCopy(self.as_ptr(), 0) }).map(drop)
    }
}

fn typed_params(request: &MigrationRequest) -> Result<TypedParamList> {
    let MigrationRequest {
        flags: _,
        uri,
        destination_name,
        destination_xml,
        persistent_xml,
        bandwidth,
        parallel_connections,
        compression,
        disks,
        disks_uri,
    } = request;
    let mut params = TypedParamList::new()?;
    let texts = [
        (sys::VIR_MIGRATE_PARAM_URI, uri),
        (sys::VIR_MIGRATE_PARAM_DEST_NAME, destination_name),
        (sys::VIR_MIGRATE_PARAM_DEST_XML, destination_xml),
        (sys::VIR_MIGRATE_PARAM_PERSIST_XML, persistent_xml),
        (sys::VIR_MIGRATE_PARAM_COMPRESSION, compression),
        (sys::VIR_MIGRATE_PARAM_DISKS_URI, disks_uri),
    ];
    for (name, text) in texts {
        if let Some(text) = text {
            params.add_text(name, text)?;
        }
    }
    if let Some(bandwidth) = bandwidth {
        params.add_u64(sys::VIR_MIGRATE_PARAM_BANDWIDTH, *bandwidth)?;
    }
    if let Some(connections) = parallel_connections {
        params.add_i32(sys::VIR_MIGRATE_PARAM_PARALLEL_CONNECTIONS, *connections)?;
    }
    for disk in disks {
        params.add_text(sys::VIR_MIGRATE_PARAM_MIGRATE_DISKS, disk)?;
        params.add_text(sys::VIR_MIGRATE_PARAM_MIGRATE_DISKS_DETECT_ZEROES, disk)?;
    }
    Ok(params)
}
