//! Asks the launcher for the domain to use. [`kubevirt_api::libvirt_hook_protocol`] has the protocol.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use kubevirt_api::libvirt_hook_protocol::{MAX_BYTES, announced, read_refusal};

/// For everything; KubeVirt's own hook waits as long.
const DEADLINE: Duration = Duration::from_secs(30);

/// Passes the domain from standard input to the launcher, and its answer to standard output.
pub(super) fn pass_domain(socket: &Path) -> Result<(), String> {
    let (done, waiting) = mpsc::channel();
    let socket = socket.to_owned();
    thread::spawn(move || {
        // Fails when the deadline is over, and the process with it.
        let _ = done.send(read_stdin().and_then(|xml| ask(&socket, &xml)));
    });
    let answer = waiting
        .recv_timeout(DEADLINE)
        .map_err(|_| format!("the launcher gave no answer within {DEADLINE:?}"))??;
    let mut stdout = io::stdout().lock();
    let written = stdout.write_all(answer.as_bytes());
    written
        .and_then(|()| stdout.flush())
        .map_err(|error| format!("standard output: {error}"))
}

fn read_stdin() -> Result<String, String> {
    read_limited(io::stdin().lock(), "standard input")
}

/// The launcher's answer to a domain.
pub(super) fn ask(socket: &Path, xml: &str) -> Result<String, String> {
    let failed = |error: io::Error| format!("the launcher's socket {}: {error}", socket.display());
    let mut launcher = UnixStream::connect(socket).map_err(failed)?;
    launcher
        .write_all(announced(xml).as_bytes())
        .map_err(failed)?;
    // A launcher that has read all of the domain may be done already.
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

fn read_limited(from: impl Read, what: &str) -> Result<String, String> {
    let mut text = String::new();
    from.take(MAX_BYTES as u64 + 1)
        .read_to_string(&mut text)
        .map_err(|error| format!("{what}: {error}"))?;
    if text.len() > MAX_BYTES {
        return Err(format!("{what} has more than {MAX_BYTES} bytes"));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::os::unix::net::UnixListener;

    use kubevirt_api::libvirt_hook_protocol::{read_request, refusal};

    use super::*;

    /// What `ask` makes of an answer.
    fn answered(answer: &str) -> Result<String, String> {
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
        let asked = ask(&socket, "<domain/>");
        launcher.join().unwrap();
        asked
    }

    #[test]
    fn answer_is_the_domain_or_the_reason() {
        assert_eq!(
            answered("<domain><a/></domain>").unwrap(),
            "<domain><a/></domain>"
        );
        assert_eq!(answered(&refusal("hook a: no")).unwrap_err(), "hook a: no");
        let empty = answered("").unwrap_err();
        assert!(empty.contains("refuses the domain"), "{empty}");
    }
}
