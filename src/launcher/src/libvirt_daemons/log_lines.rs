//! Lines of other programs' logs, bounded, and the launcher's own lines made of them.

use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};

use crate::first_migration_error_in_libvirt_log::MigrationErrorLog;

/// No line grows longer than this; the rest of a longer one is cut off.
pub(super) const LONGEST: usize = 16 * 1024;

/// Hands every line on, until the end or an error of the input.
pub(super) async fn each(input: impl AsyncRead + Unpin, mut line: impl FnMut(&str)) {
    let mut input = BufReader::with_capacity(4096, input);
    let mut lines = Lines::default();
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

/// Cuts bytes into lines.
#[derive(Debug, Default)]
pub(super) struct Lines {
    unfinished: Vec<u8>,
}

impl Lines {
    /// Takes more bytes and hands on the lines they complete.
    pub(super) fn feed(&mut self, mut bytes: &[u8], line: &mut impl FnMut(&str)) {
        while let Some(end) = bytes.iter().position(|&byte| byte == b'\n') {
            let (first, rest) = bytes.split_at(end);
            self.push(first);
            self.finish(line);
            bytes = rest.get(1..).unwrap_or_default();
        }
        self.push(bytes);
    }

    /// Hands on what is there without a line's end.
    pub(super) fn finish(&mut self, line: &mut impl FnMut(&str)) {
        let text = String::from_utf8_lossy(&self.unfinished);
        if !text.trim().is_empty() {
            line(text.trim_end());
        }
        drop(text);
        self.unfinished.clear();
    }

    fn push(&mut self, bytes: &[u8]) {
        let room = LONGEST.saturating_sub(self.unfinished.len());
        self.unfinished
            .extend_from_slice(bytes.get(..room).unwrap_or(bytes));
    }
}

/// One line of libvirt's log, taken apart:
/// `2026-01-01 00:00:00.000+0000: 17: error : qemuFunction:123 : message`.
#[derive(Debug, PartialEq, Eq)]
struct LibvirtLine<'a> {
    thread: &'a str,
    severity: &'a str,
    pos: &'a str,
    message: &'a str,
}

impl<'a> LibvirtLine<'a> {
    /// `None` for lines in another form, such as the end of a message of several lines.
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

/// Logs one line of libvirt's; `migration` takes in its errors. Its debug messages are only there when they were asked
/// for, so they are not held back a second time.
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
            tracing::error!(
                subcomponent = "libvirt",
                thread,
                libvirt_pos = pos,
                "{message}"
            );
        }
        "warning" => tracing::warn!(
            subcomponent = "libvirt",
            thread,
            libvirt_pos = pos,
            "{message}"
        ),
        _ => tracing::info!(
            subcomponent = "libvirt",
            thread,
            libvirt_pos = pos,
            severity,
            "{message}"
        ),
    }
}

/// Logs one line of QEMU's.
pub(super) fn log_qemu(line: &str) {
    tracing::info!(subcomponent = "qemu", "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(pieces: &[&[u8]]) -> Vec<String> {
        let mut lines = Lines::default();
        let mut output = Vec::new();
        let mut note = |line: &str| output.push(line.to_owned());
        for piece in pieces {
            lines.feed(piece, &mut note);
        }
        lines.finish(&mut note);
        output
    }

    #[test]
    fn lines_are_cut_at_newlines_for_any_read_size() {
        assert_eq!(
            cut(&[b"on", b"e\ntwo\r\n\nthr", b"ee"]),
            ["one", "two", "three"]
        );
        assert_eq!(cut(&[b"\xff\xfe\n"]), ["\u{fffd}\u{fffd}"]);
    }

    #[test]
    fn line_without_an_end_is_bounded() {
        let flood = vec![b'x'; LONGEST * 3];
        let lines = cut(&[&flood, &flood, b"\nnext"]);
        assert_eq!(lines.len(), 2);
        assert_eq!(lines[0].len(), LONGEST);
        assert_eq!(lines[1], "next");
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
