//! The protocol between libvirt's migration hook and the launcher on the migration target.
//!
//! The hook sends the domain's XML to a socket of the launcher and reads the XML of the domain to use. KubeVirt's own
//! hook treats an empty answer as a failure and cannot receive the reason. Our hook announces that it reads refusals,
//! with a processing instruction before the XML, and then gets the reason as a processing instruction. XML parsers skip
//! both.

/// The path of the launcher's socket.
pub const SOCKET: &str = "/var/run/kubevirt/migration-hook-socket";
/// The socket's name in the directory that the launcher shares with virt-handler.
pub const SOCKET_NAME: &str = "migration-hook-socket";
/// The file that tells KubeVirt that the VM has left this pod: its backend storage is no longer the current one.
pub const MIGRATED_MARKER: &str = "/run/kubevirt-private/backend-storage-meta/migrated";
/// The maximum size of the domain's XML in bytes.
pub const MAX_BYTES: usize = 4 << 20;

/// The processing instruction before the XML by which a hook announces that it reads refusals.
const ANNOUNCEMENT: &str = "<?virt-hook reads-refusals?>";
const REFUSAL_START: &str = "<?virt-launcher refuses ";
const REFUSAL_END: &str = "?>";

/// The domain XML with the announcement that this hook reads refusals.
pub fn announced(xml: &str) -> String {
    // XML does not allow a processing instruction before an XML declaration.
    match xml.trim_start().starts_with("<?xml") {
        true => xml.to_owned(),
        false => format!("{ANNOUNCEMENT}{xml}"),
    }
}

/// The XML without the announcement, and whether the hook reads refusals.
pub fn read_request(text: &str) -> (&str, bool) {
    match text.strip_prefix(ANNOUNCEMENT) {
        Some(xml) => (xml, true),
        None => (text, false),
    }
}

/// The answer that refuses a migration, for a hook that reads refusals.
pub fn refusal(reason: &str) -> String {
    format!(
        "{REFUSAL_START}{}{REFUSAL_END}",
        reason.replace(REFUSAL_END, "? >")
    )
}

/// The reason if the answer is a refusal.
pub fn read_refusal(answer: &str) -> Option<&str> {
    let reason = answer.trim().strip_prefix(REFUSAL_START)?;
    reason.strip_suffix(REFUSAL_END)
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
