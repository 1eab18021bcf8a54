//! Reads the details of a guest's panic from QEMU's log, for the warning to the VM's owner and for virt-handler. Pure.

use kubevirt_api::domain_json::GuestPanicInfo;

use super::Warning;

/// The warning of a panic, and its details for virt-handler, from the end of QEMU's log.
pub(crate) fn panic_warning(log: &str) -> (Warning, GuestPanicInfo) {
    let (message, info) = match log.lines().rev().find_map(panic_info) {
        Some(info) => (describe(&info), info),
        None => (
            "GuestPanicked (details unavailable)".to_owned(),
            GuestPanicInfo {
                kind: "unknown".into(),
                ..GuestPanicInfo::default()
            },
        ),
    };
    let warning = Warning {
        reason: "GuestPanicked",
        message,
    };
    (warning, info)
}

fn describe(info: &GuestPanicInfo) -> String {
    if info.kind != "hyper-v" {
        return format!("GuestPanicked: type={}", info.kind);
    }
    let arguments = [info.arg1, info.arg2, info.arg3, info.arg4, info.arg5];
    let arguments = arguments.map(|argument| format!("'{argument:#x}'"));
    format!("GuestPanicked: {}", arguments.join(", "))
}

/// Parses a line of a panic as libvirt writes it: `<time>: panic hyper-v: arg1='0x5a', arg2='0x1'...`.
fn panic_info(line: &str) -> Option<GuestPanicInfo> {
    let (_, panic) = line.split_once("panic ")?;
    let (kind, arguments) = panic.trim_start().split_once(':')?;
    if kind.is_empty() || kind.contains(char::is_whitespace) {
        return None;
    }
    let argument = |name: &str| -> u64 {
        let fields = arguments.split(',').map(str::trim);
        let mut values = fields.filter_map(|field| field.strip_prefix(name)?.strip_prefix('='));
        let value = values.next().unwrap_or_default();
        let digits = value.trim_matches(['\'', '"']).trim_start_matches("0x");
        u64::from_str_radix(digits, 16).unwrap_or(0)
    };
    Some(GuestPanicInfo {
        kind: kind.to_owned(),
        arg1: argument("arg1"),
        arg2: argument("arg2"),
        arg3: argument("arg3"),
        arg4: argument("arg4"),
        arg5: argument("arg5"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panic_details_are_read_from_the_log() {
        let log = "2024-09-30 16:30:49.506+0000: panic hyper-v: arg1='0x5a', arg2='0x1', \
                   arg3='0x0', arg4='0x0', arg5='0xff'\nlast line\n";
        let (warning, info) = panic_warning(log);
        assert_eq!(
            warning.message,
            "GuestPanicked: '0x5a', '0x1', '0x0', '0x0', '0xff'"
        );
        assert_eq!((info.arg1, info.arg5), (0x5a, 0xff));
        let (warning, info) = panic_warning("nothing\nof the kind: panic at the disco");
        assert_eq!(warning.message, "GuestPanicked (details unavailable)");
        assert_eq!(info.kind, "unknown");
    }
}
