//! What libvirt's hook and the launcher of a migration's target say to each other.
//!
//! The hook sends the domain's XML to a socket of the launcher's and reads the domain to use. KubeVirt's own hook takes an
//! empty answer for a failure and has no way to learn the reason; a hook that announces itself by a processing
//! instruction before the XML gets the reason in another one. An XML reader skips both.

/// The launcher's socket.
pub const SOCKET: &str = "/var/run/kubevirt/migration-hook-socket";
/// The socket's name in the directory that the launcher shares with virt-handler.
pub const SOCKET_NAME: &str = "migration-hook-socket";
/// The file that tells KubeVirt that the VM has left this pod: its backend storage is not the current one any more.
pub const MIGRATED_MARKER: &str = "/run/kubevirt-private/backend-storage-meta/migrated";
/// The largest domain that is read.
pub const MAX_BYTES: usize = 4 << 20;

/// Before the XML: this hook understands a refusal.
const ANNOUNCEMENT: &str = "<?virt-hook reads-refusals?>";
const REFUSAL: &str = "<?virt-launcher refuses ";
const END: &str = "?>";

/// The domain XML after the processing instruction that asks the launcher for the reason of a refusal.
pub fn announced(xml: &str) -> String {
    // A processing instruction must not stand before an XML declaration.
    match xml.trim_start().starts_with("<?xml") {
        true => xml.to_owned(),
        false => format!("{ANNOUNCEMENT}{xml}"),
    }
}

/// The XML as it came, and whether its hook understands a refusal.
pub fn read_request(text: &str) -> (&str, bool) {
    match text.strip_prefix(ANNOUNCEMENT) {
        Some(xml) => (xml, true),
        None => (text, false),
    }
}

/// A refusal for a hook that understands it.
pub fn refusal(reason: &str) -> String {
    format!("{REFUSAL}{}{END}", reason.replace(END, "? >"))
}

/// The reason, if the answer is a refusal.
pub fn read_refusal(answer: &str) -> Option<&str> {
    let reason = answer.trim().strip_prefix(REFUSAL)?;
    reason.strip_suffix(END)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn announcement_and_refusal_are_read_back() {
        assert_eq!(read_request(&announced("<domain/>")), ("<domain/>", true));
        assert_eq!(
            read_request("<domain/>"),
            ("<domain/>", false),
            "KubeVirt's hook"
        );
        let declared = "<?xml version='1.0'?><domain/>";
        assert_eq!(announced(declared), declared);
        let reason = "hook a may not change /domain/memory ?> \"x\"";
        assert_eq!(
            read_refusal(&refusal(reason)),
            Some("hook a may not change /domain/memory ? > \"x\"")
        );
        assert_eq!(read_refusal("<domain/>"), None);
    }
}
