//! Calls a hook at its hook points: from texts to the SDK's types and back. The same natively, in tests, and in the
//! component.
#![allow(
    missing_docs,
    clippy::missing_errors_doc,
    reason = "not part of the API"
)]

use crate::{CloudInit, Device, Domain, Error, Hook, HookPoint, Migration, Vmi};

/// Whether a hook has a hook point. A constant, so that the module does not contain the code of other
/// hook points.
const fn serves<H: Hook>(point: HookPoint) -> bool {
    let mut at = 0;
    while at < H::HOOK_POINTS.len() {
        if H::HOOK_POINTS[at] as u8 == point as u8 {
            return true;
        }
        at += 1;
    }
    false
}

pub fn pre_start<H: Hook>(vmi: String) -> Result<(), Error> {
    if !const { serves::<H>(HookPoint::PreStart) } {
        return Ok(());
    }
    with_vmi(vmi, |vmi| H::default().pre_start(vmi))
}

pub fn pre_cloud_init_iso<H: Hook>(
    vmi: String,
    data_source: String,
    documents: Vec<(String, String)>,
) -> Result<Vec<(String, String)>, Error> {
    if !const { serves::<H>(HookPoint::PreCloudInitIso) } {
        return Ok(documents);
    }
    let mut cloud_init = CloudInit::new(data_source, documents);
    with_vmi(vmi, |vmi| {
        H::default().pre_cloud_init_iso(vmi, &mut cloud_init)
    })?;
    Ok(cloud_init.into_documents())
}

pub fn on_define_domain<H: Hook>(vmi: String, xml: String) -> Result<String, Error> {
    if !const { serves::<H>(HookPoint::OnDefineDomain) } {
        return Ok(xml);
    }
    let mut domain = Domain::parse(xml)?;
    with_vmi(vmi, |vmi| H::default().on_define_domain(vmi, &mut domain))?;
    domain.check_values()?;
    Ok(domain.render())
}

pub fn on_attach_device<H: Hook>(vmi: String, xml: String) -> Result<String, Error> {
    if !const { serves::<H>(HookPoint::OnAttachDevice) } {
        return Ok(xml);
    }
    let mut device = Device::parse(xml)?;
    with_vmi(vmi, |vmi| H::default().on_attach_device(vmi, &mut device))?;
    device.check_values()?;
    Ok(device.render())
}

pub fn pre_migration_source<H: Hook>(
    vmi: String,
    parameters: Vec<(String, String)>,
) -> Result<Vec<(String, String)>, Error> {
    if !const { serves::<H>(HookPoint::PreMigrationSource) } {
        return Ok(parameters);
    }
    let mut migration = Migration::new(parameters);
    with_vmi(vmi, |vmi| {
        H::default().pre_migration_source(vmi, &mut migration)
    })?;
    Ok(migration.into_parameters())
}

pub fn shutdown<H: Hook>() -> Result<(), Error> {
    if !const { serves::<H>(HookPoint::Shutdown) } {
        return Ok(());
    }
    H::default().shutdown()
}

/// A parse error of the VMI takes precedence: accessors cannot return it, and it explains later errors.
fn with_vmi(vmi: String, work: impl FnOnce(&Vmi) -> Result<(), Error>) -> Result<(), Error> {
    let vmi = Vmi::new(vmi);
    let result = work(&vmi);
    match vmi.parse_error() {
        Some(parse_error) => Err(parse_error.clone().into()),
        None => result,
    }
}
