//! UEFI firmware: the image and the variable store.

use kubevirt_api::vmi::Efi;

use crate::convert::arch::{FirmwareImage, missing_firmware};
use crate::convert::conversion_inputs::Context;
use crate::convert::error::ConvertError;
use crate::convert::storage::volume_paths::libvirt_directory;
use crate::libvirt_spec::{DomainSpec, FirmwareFeature, FirmwareInfo, Loader, NVRam, Os, yes_no};

/// Checks that firmware for the guest is installed. This error is reported before all others.
pub(crate) fn check(context: &Context<'_>, _spec: &mut DomainSpec) -> Result<(), ConvertError> {
    let firmware = context.vmi.spec.domain.firmware.as_ref();
    let bootloader = firmware.and_then(|firmware| firmware.bootloader.as_ref());
    match bootloader.and_then(|bootloader| bootloader.efi.as_ref()) {
        Some(efi) if !is_chosen_by_libvirt(context, efi) => {
            image(context, has_secure_boot(efi)).map(drop)
        }
        _ => Ok(()),
    }
}

fn image(context: &Context<'_>, secure_boot: bool) -> Result<FirmwareImage, ConvertError> {
    // KubeVirt's image for an architecture without UEFI has no directory of it.
    if context.host.ovmf_path.is_empty() {
        return Err(missing_firmware(secure_boot, context.protection));
    }
    context
        .architecture
        .uefi_image(secure_boot, context.protection, context.host)
}

fn has_secure_boot(efi: &Efi) -> bool {
    efi.secure_boot.unwrap_or(true)
}

fn is_chosen_by_libvirt(context: &Context<'_>, efi: &Efi) -> bool {
    has_secure_boot(efi)
        && !context.protection.has_own_firmware()
        && context.host.firmware_auto_selection
}

pub(crate) fn add(context: &Context<'_>, efi: &Efi, os: &mut Os) -> Result<(), ConvertError> {
    let secure = has_secure_boot(efi);
    let (protection, behaviour) = (context.protection, context.behaviour());
    if is_chosen_by_libvirt(context, efi) {
        request_from_libvirt(context, os);
        return Ok(());
    }
    let image = image(context, secure)?;
    let directory = &context.host.ovmf_path;
    os.boot_loader = Some(Loader {
        read_only: "yes".into(),
        secure: yes_no(
            secure && !(behaviour.tdx_has_quote_service && protection.has_keys_in_firmware()),
        ),
        kind: if protection.is_stateless() {
            "rom"
        } else {
            "pflash"
        }
        .into(),
        path: format!("{directory}/{}", image.code),
    });
    os.nvram = (!protection.is_stateless()).then(|| NVRam {
        template: format!("{directory}/{}", image.variables),
        nvram: variable_store(context),
        ..NVRam::default()
    });
    Ok(())
}

fn variable_store(context: &Context<'_>) -> String {
    let directory = libvirt_directory(context.vmi);
    format!("{directory}/nvram/{}_VARS.fd", context.vmi.name())
}

fn request_from_libvirt(context: &Context<'_>, os: &mut Os) {
    let feature = |name: &str| FirmwareFeature {
        enabled: "yes".into(),
        name: name.into(),
    };
    os.firmware = "efi".into();
    os.firmware_info = Some(FirmwareInfo {
        features: vec![feature("secure-boot"), feature("enrolled-keys")],
    });
    // With a given path a persistent store can be mounted there.
    let has_nvram = context.architecture.has_nvram_with_chosen_firmware();
    os.nvram = has_nvram.then(|| NVRam {
        format: "raw".into(),
        nvram: variable_store(context),
        ..NVRam::default()
    });
}
