//! Splits the logs of other programs into lines of limited length, and logs them as lines of the launcher's log.

use std::borrow::Cow;

use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};

use crate::migration_error_log::MigrationErrorLog;

/// Maximum length of a line; a longer one is cut off.
pub(super) const MAX_LINE_BYTES: usize = 16 * 1024;

/// Calls `line` for every line, until the end or an error of the input.
pub(super) async fn for_each(input: impl AsyncRead + Unpin, mut line: impl FnMut(&str)) {
    let mut input = BufReader::with_capacity(4096, input);
    let mut lines = LineSplitter::default();
    loop {
        let consumed = match input.fill_buf().await {
            Ok([]) => break,
            Ok(bytes) => {
                lines.feed(bytes, &mut line);
                bytes.len()
            }
            Err(error) => {
                tracing::debug!(%error, "a daemon's log cannot be read on");
                break;
            }
        };
        input.consume(consumed);
    }
    lines.finish(&mut line);
}

/// Splits bytes into lines.
#[derive(Debug, Default)]
pub(super) struct LineSplitter {
    unfinished: Vec<u8>,
}

impl LineSplitter {
    /// Takes more bytes, and calls `line` for the lines that they complete.
    pub(super) fn feed(&mut self, mut bytes: &[u8], line: &mut impl FnMut(&str)) {
        while let Some(end) = bytes.iter().position(|&byte| byte == b'\n') {
            let (first, rest) = bytes.split_at(end);
            self.push(first);
            self.finish(line);
            bytes = rest.get(1..).unwrap_or_default();
        }
        self.push(bytes);
    }

    /// Calls `line` for the last line, which has no newline.
    pub(super) fn finish(&mut self, line: &mut impl FnMut(&str)) {
        let text = String::from_utf8_lossy(&self.unfinished);
        if !text.trim().is_empty() {
            line(text.trim_end());
        }
        drop(text);
        self.unfinished.clear();
    }

    fn push(&mut self, bytes: &[u8]) {
        let capacity = MAX_LINE_BYTES.saturating_sub(self.unfinished.len());
        self.unfinished
            .extend_from_slice(bytes.get(..capacity).unwrap_or(bytes));
    }
}

/// The parts of a line in libvirt's log, such as
/// `2026-01-01 00:00:00.000+0000: 17: error : qemuFunction:123 : message`.
#[derive(Debug, PartialEq, Eq)]
struct LibvirtLine<'a> {
    thread: &'a str,
    severity: &'a str,
    pos: &'a str,
    message: &'a str,
}

impl<'a> LibvirtLine<'a> {
    /// `None` for a line in another format, such as the second line of a message.
    fn parse(line: &'a str) -> Option<Self> {
        let (_timestamp, rest) = line.split_once(": ")?;
        let (thread, rest) = rest.split_once(": ")?;
        let (severity, rest) = rest.split_once(" : ")?;
        let known = ["debug", "info", "warning", "error"].contains(&severity);
        if !known || !thread.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let (pos, message) = rest.split_once(" : ").unwrap_or(("", rest));
        Some(LibvirtLine {
            thread,
            severity,
            pos,
            message,
        })
    }
}

/// The commands by which the launcher polls the guest agent.
const POLLING_COMMANDS: [&str; 3] = [
    "'guest-get-",
    "'guest-network-get-interfaces'",
    "'guest-info'",
];

/// A message of libvirt as operators' rules for KubeVirt's log expect it. KubeVirt's launcher says of an agent that refuses to
/// tell about the guest, `Fetching guest info failed: ` and libvirt's message, and its rules take that for no defect.
fn as_in_kubevirts_log<'a>(pos: &str, message: &'a str) -> Cow<'a, str> {
    let is_of_poll = pos.starts_with("qemuAgentCheckError")
        && POLLING_COMMANDS
            .iter()
            .any(|command| message.contains(command));
    match is_of_poll {
        true => Cow::Owned(format!("Fetching guest info failed: {message}")),
        false => Cow::Borrowed(message),
    }
}

/// Logs one line of libvirt, and passes its errors to `migration`. Debug messages are logged at level info: libvirt
/// writes them only when they were requested.
pub(super) fn log_libvirt(line: &str, migration: &MigrationErrorLog) {
    let Some(LibvirtLine {
        thread,
        severity,
        pos,
        message,
    }) = LibvirtLine::parse(line)
    else {
        tracing::info!(subcomponent = "libvirt", "{line}");
        return;
    };
    match severity {
        "error" => {
            migration.observe(pos, message);
            let message = as_in_kubevirts_log(pos, message);
            tracing::error!(subcomponent = "libvirt", thread, pos, "{message}");
        }
        "warning" => tracing::warn!(subcomponent = "libvirt", thread, pos, "{message}"),
        _ => tracing::info!(subcomponent = "libvirt", thread, pos, severity, "{message}"),
    }
}

/// Logs one line of QEMU.
pub(super) fn log_qemu(line: &str) {
    tracing::info!(subcomponent = "qemu", "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(pieces: &[&[u8]]) -> Vec<String> {
        let mut lines = LineSplitter::default();
        let mut output = Vec::new();
        let mut collect = |line: &str| output.push(line.to_owned());
        for piece in pieces {
            lines.feed(piece, &mut collect);
        }
        lines.finish(&mut collect);
        output
    }

    #[test]
    fn lines_are_split_at_newlines_for_any_read_size() {
        assert_eq!(
            split(&[b"on", b"e\ntwo\r\n\nthr", b"ee"]),
            ["one", "two", "three"]
        );
        assert_eq!(split(&[b"\xff\xfe\n"]), ["\u{fffd}\u{fffd}"]);
    }

    #[test]
    fn long_line_is_cut_off() {
        let flood = vec![b'x'; MAX_LINE_BYTES * 3];
        let lines = split(&[&flood, &flood, b"\nnext"]);
        assert_eq!(lines.len(), 2);
        assert_eq!(lines[0].len(), MAX_LINE_BYTES);
        assert_eq!(lines[1], "next");
    }

    #[test]
    fn agents_refusal_to_tell_about_the_guest_is_logged_as_by_kubevirt() {
        let refused = "guest agent command failed: unable to execute QEMU agent command 'guest-get-load': The command \
            guest-get-load has not been found";
        for (pos, message, is_of_poll) in [
            ("qemuAgentCheckError:1041", refused, true),
            ("qemuMonitorIO:530", refused, false),
            (
                "qemuAgentCheckError:1041",
                "guest agent command failed: unable to execute QEMU agent command 'guest-exec': not found",
                false,
            ),
        ] {
            let logged = as_in_kubevirts_log(pos, message);
            let prefixed = format!("Fetching guest info failed: {message}");
            assert_eq!(
                logged,
                if is_of_poll { &*prefixed } else { message },
                "{pos}"
            );
        }
    }

    #[test]
    fn libvirts_log_lines_are_parsed() {
        let line = "2026-11-21 13:00:00.123+0000: 4711: error : qemuMonitorIO:530 : internal error: End of file";
        assert_eq!(
            LibvirtLine::parse(line),
            Some(LibvirtLine {
                thread: "4711",
                severity: "error",
                pos: "qemuMonitorIO:530",
                message: "internal error: End of file",
            })
        );
        let start = "2026-11-21 13:00:00.123+0000: 4711: info : libvirt version: 11.3.0";
        assert_eq!(
            LibvirtLine::parse(start).map(|line| line.message),
            Some("libvirt version: 11.3.0")
        );
        assert_eq!(LibvirtLine::parse("anything: else: here : x"), None);
    }
}
