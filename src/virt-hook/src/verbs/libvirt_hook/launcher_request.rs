//! Asks the launcher for the domain to use. [`kubevirt_api::libvirt_migration_hook_protocol`] has the protocol.

use std::io::{self, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use kubevirt_api::libvirt_migration_hook_protocol::{announced, read_refusal};

use super::domain_stdio::{read_domain, read_limited, write_domain};
use super::thread_with_deadline::run_with_deadline;

/// Deadline of the whole request; KubeVirt's own hook waits as long.
const DEADLINE: Duration = Duration::from_secs(30);

/// Passes libvirt's domain to the launcher, and the launcher's answer to libvirt.
pub(super) fn pass_domain(socket: &Path) -> Result<(), String> {
    let socket = socket.to_owned();
    let ask = move || ask(&socket, &read_domain()?);
    write_domain(&run_with_deadline(
        DEADLINE,
        "the launcher gave no answer",
        ask,
    )?)
}

/// Asks the launcher for the domain to use in place of `xml`.
pub(super) fn ask(socket: &Path, xml: &str) -> Result<String, String> {
    let failed = |error: io::Error| format!("the launcher's socket {}: {error}", socket.display());
    let mut launcher = UnixStream::connect(socket).map_err(failed)?;
    // KubeVirt's launcher reads to the end of the root element. A byte behind it that is not read when the launcher
    // closes the connection would become an error here.
    launcher
        .write_all(announced(xml.trim_end()).as_bytes())
        .map_err(failed)?;
    // Fails if the launcher has already answered and closed the connection.
    let _ = launcher.shutdown(Shutdown::Write);
    let answer = read_limited(&launcher, "the launcher's answer")?;
    if let Some(reason) = read_refusal(&answer) {
        return Err(reason.to_owned());
    }
    if answer.trim().is_empty() {
        return Err("the launcher refuses the domain; its log says why".to_owned());
    }
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::net::UnixListener;
    use std::thread;

    use kubevirt_api::libvirt_migration_hook_protocol::{read_request, refusal};

    use super::*;

    /// The result of `ask` if the launcher gives this answer.
    fn ask_launcher_that_answers(answer: &str) -> Result<String, String> {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("hook-socket");
        let listener = UnixListener::bind(&socket).unwrap();
        let answer = answer.to_owned();
        let launcher = thread::spawn(move || {
            let (mut hook, _) = listener.accept().unwrap();
            let mut request = String::new();
            hook.read_to_string(&mut request).unwrap();
            assert_eq!(read_request(&request), ("<domain/>", true));
            hook.write_all(answer.as_bytes()).unwrap();
        });
        let result = ask(&socket, "<domain/>");
        launcher.join().unwrap();
        result
    }

    /// KubeVirt's launcher does so (tests/corpus/libvirt-hook-calls/README.md).
    #[test]
    fn launcher_may_close_at_the_end_of_the_root_element() {
        const END: &[u8] = b"</domain>";
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("hook-socket");
        let listener = UnixListener::bind(&socket).unwrap();
        let launcher = thread::spawn(move || {
            let (mut hook, _) = listener.accept().unwrap();
            let mut request = Vec::new();
            while !request.ends_with(END) {
                let mut byte = [0];
                hook.read_exact(&mut byte).unwrap();
                request.extend(byte);
            }
            hook.write_all(b"<domain></domain>").unwrap();
        });
        let answer = ask(&socket, "<domain>\n</domain>\n");
        launcher.join().unwrap();
        assert_eq!(answer.unwrap(), "<domain></domain>");
    }

    #[test]
    fn answer_is_the_domain_or_the_reason() {
        assert_eq!(
            ask_launcher_that_answers("<domain><a/></domain>").unwrap(),
            "<domain><a/></domain>"
        );
        assert_eq!(
            ask_launcher_that_answers(&refusal("hook a: no")).unwrap_err(),
            "hook a: no"
        );
        let empty = ask_launcher_that_answers("").unwrap_err();
        assert!(empty.contains("refuses the domain"), "{empty}");
    }
}
