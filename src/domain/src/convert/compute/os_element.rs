//! The `<os>` element: machine type, firmware, direct kernel boot, ACPI tables.

use kubevirt_api::vmi::{Acpi, Firmware, KernelBootContainer};

use crate::convert::compute::uefi_firmware;
use crate::convert::conversion_inputs::Context;
use crate::convert::error::ConvertError;
use crate::convert::file_name_of_path::file_name;
use crate::libvirt_spec::{AcpiTable, Bios, BootMenu, DomainSpec, Os, OsAcpi, OsType, Smbios};

/// How long a guest that starts paused waits in the boot menu, in milliseconds.
const PAUSED_MENU_TIMEOUT_MS: u64 = 10_000;
const SECRETS_DIR: &str = "/var/run/kubevirt-private/secret";

pub(crate) fn add(context: &Context<'_>, spec: &mut DomainSpec) -> Result<(), ConvertError> {
    spec.os = Os {
        kind: OsType {
            os: "hvm".into(),
            arch: context.architecture.libvirt_name().into(),
            machine: machine(context),
        },
        smbios: context.architecture.has_smbios().then(|| Smbios {
            mode: "sysinfo".into(),
        }),
        boot_menu: context.vmi.starts_paused().then(|| BootMenu {
            enable: "yes".into(),
            timeout: Some(PAUSED_MENU_TIMEOUT_MS),
        }),
        ..Os::default()
    };
    match &context.vmi.spec.domain.firmware {
        Some(firmware) => add_firmware(context, firmware, &mut spec.os),
        None => Ok(()),
    }
}

fn machine(context: &Context<'_>) -> String {
    match &context.vmi.spec.domain.machine {
        Some(machine) if !machine.kind.is_empty() => machine.kind.clone(),
        _ => context.architecture.default_machine().into(),
    }
}

fn add_firmware(
    context: &Context<'_>,
    firmware: &Firmware,
    os: &mut Os,
) -> Result<(), ConvertError> {
    let bootloader = firmware.bootloader.as_ref();
    if let Some(efi) = bootloader.and_then(|bootloader| bootloader.efi.as_ref()) {
        uefi_firmware::add(context, efi, os)?;
    }
    let bios = bootloader.and_then(|bootloader| bootloader.bios.as_ref());
    if bios.is_some_and(|bios| bios.use_serial == Some(true)) {
        os.bios = Some(Bios {
            use_serial: "yes".into(),
        });
    }
    if let Some(boot) = &firmware.kernel_boot {
        if let Some(container) = &boot.container {
            add_kernel(context, container, os)?;
        }
        os.kernel_args.clone_from(&boot.kernel_args);
    }
    firmware
        .acpi
        .as_ref()
        .map_or(Ok(()), |acpi| add_acpi(context, acpi, os))
}

fn add_kernel(
    context: &Context<'_>,
    container: &KernelBootContainer,
    os: &mut Os,
) -> Result<(), ConvertError> {
    let artifact = |field: &str, path: &str| match file_name(path) {
        _ if path.is_empty() => Ok(String::new()),
        Some(name) => Ok(format!(
            "{}/kernel-boot/{name}",
            context.host.container_disk_dir
        )),
        None => Err(ConvertError::Value {
            field: format!("spec.domain.firmware.kernelBoot.container.{field}"),
            value: path.to_owned(),
            allowed: "the path of a file in the image",
        }),
    };
    os.kernel = artifact("kernelPath", &container.kernel_path)?;
    os.initrd = artifact("initrdPath", &container.initrd_path)?;
    Ok(())
}

fn add_acpi(context: &Context<'_>, acpi: &Acpi, os: &mut Os) -> Result<(), ConvertError> {
    if acpi.slic_name_ref.is_empty() && acpi.msdm_name_ref.is_empty() {
        return Err(ConvertError::invalid(
            match context.behaviour().acpi_errors_in_lower_case {
                true => "no ACPI tables were set, expecting at least one",
                false => "No ACPI tables were set. Expecting at least one.",
            },
        ));
    }
    let mut tables = OsAcpi::default();
    for (kind, volume) in [("slic", &acpi.slic_name_ref), ("msdm", &acpi.msdm_name_ref)] {
        if !volume.is_empty() {
            tables.table.push(acpi_table(context, kind, volume)?);
        }
    }
    os.acpi = Some(tables);
    Ok(())
}

fn acpi_table(context: &Context<'_>, kind: &str, volume: &str) -> Result<AcpiTable, ConvertError> {
    let firmware = match context.behaviour().acpi_errors_in_lower_case {
        true => "firmware",
        false => "Firmware",
    };
    match context.vmi.volume(volume) {
        None => Err(ConvertError::invalid(format!(
            "{firmware}'s volume for {kind} was not found"
        ))),
        Some(source) if source.secret.is_none() => Err(ConvertError::invalid(format!(
            "{firmware}'s volume type is unsupported for {kind}"
        ))),
        Some(_) => Ok(AcpiTable {
            path: format!("{SECRETS_DIR}/{volume}/{kind}.bin"),
            kind: kind.into(),
        }),
    }
}
