//! The log of one call: lines from the host interface and both standard streams, up to a size limit.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use tokio::io::AsyncWrite;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamResult};

use crate::printable::printable;
use crate::{LogLevel, LogLine};

/// Maximum size of one write of a guest in bytes, so that the host allocates no more.
const MAX_WRITE_BYTES: usize = 64 << 10;
/// Cost of a line in bytes besides its text, so that empty lines are not free.
const LINE_COST: usize = 16;

/// The log of one call. Clones share the log.
#[derive(Clone)]
pub(super) struct HookLog(Arc<Mutex<LogState>>);

struct LogState {
    lines: Vec<LogLine>,
    /// The incomplete last line of each standard stream.
    partial_lines: [Vec<u8>; 2],
    bytes_left: usize,
    limit: usize,
    is_full: bool,
}

/// A standard stream of the guest whose lines are logged.
#[derive(Clone)]
pub(super) struct LogStream {
    log: HookLog,
    kind: StandardStream,
}

/// A standard stream of the guest.
#[derive(Clone, Copy)]
pub(super) enum StandardStream {
    Output,
    Error,
}

impl HookLog {
    pub(super) fn new(limit: usize) -> Self {
        Self(Arc::new(Mutex::new(LogState {
            lines: Vec::new(),
            partial_lines: Default::default(),
            bytes_left: limit,
            limit,
            is_full: false,
        })))
    }

    fn lock(&self) -> MutexGuard<'_, LogState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn log(&self, level: LogLevel, message: &str) {
        let mut state = self.lock();
        // An empty message is one empty line, which costs something.
        let lines = message.lines().chain(message.is_empty().then_some(""));
        for line in lines {
            if state.is_full {
                return;
            }
            state.push(level, line);
        }
    }

    pub(super) fn stream(&self, kind: StandardStream) -> LogStream {
        LogStream {
            log: self.clone(),
            kind,
        }
    }

    /// Takes all lines so far, including incomplete last lines of the standard streams.
    pub(super) fn take(&self) -> Vec<LogLine> {
        let mut state = self.lock();
        for kind in [StandardStream::Output, StandardStream::Error] {
            let line = std::mem::take(&mut state.partial_lines[kind as usize]);
            if !line.is_empty() {
                state.push(kind.level(), &String::from_utf8_lossy(&line));
            }
        }
        std::mem::take(&mut state.lines)
    }
}

impl LogState {
    fn push(&mut self, level: LogLevel, line: &str) {
        if self.is_full {
            return;
        }
        let message = printable(line, self.bytes_left);
        let cost = message.len().max(line.len()) + LINE_COST;
        if cost > self.bytes_left {
            self.is_full = true;
            let message = format!("the rest is dropped: a call may log {} bytes", self.limit);
            self.lines.push(LogLine {
                level: LogLevel::Warn,
                message,
            });
            return;
        }
        self.bytes_left -= cost;
        self.lines.push(LogLine { level, message });
    }

    fn write(&mut self, kind: StandardStream, bytes: &[u8]) {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            let partial = &mut self.partial_lines[kind as usize];
            let space = self.limit.saturating_sub(partial.len());
            partial.extend_from_slice(&part[..part.len().min(space)]);
            if part.ends_with(b"\n") {
                let line = std::mem::take(partial);
                let text = String::from_utf8_lossy(&line);
                self.push(kind.level(), text.trim_end_matches(['\r', '\n']));
            }
        }
    }
}

impl StandardStream {
    fn level(self) -> LogLevel {
        match self {
            Self::Output => LogLevel::Info,
            Self::Error => LogLevel::Error,
        }
    }
}

impl IsTerminal for LogStream {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for LogStream {
    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        Box::new(self.clone())
    }

    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }
}

#[wasmtime_wasi::async_trait]
impl Pollable for LogStream {
    async fn ready(&mut self) {}
}

// Output beyond the limit is dropped without an error, so that a hook that logs too much does not fail.
impl OutputStream for LogStream {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.log.lock().write(self.kind, &bytes);
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(MAX_WRITE_BYTES)
    }
}

impl AsyncWrite for LogStream {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.log.lock().write(self.kind, bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn standard_streams_are_split_into_lines() {
        let log = HookLog::new(1000);
        log.lock().write(StandardStream::Error, b"one\ntw");
        log.lock().write(StandardStream::Output, b"aside\r\n");
        log.lock().write(StandardStream::Error, b"o");
        let lines: Vec<_> = log
            .take()
            .into_iter()
            .map(|line| (line.level, line.message))
            .collect();
        assert_eq!(
            lines,
            [
                (LogLevel::Error, "one".to_owned()),
                (LogLevel::Info, "aside".to_owned()),
                (LogLevel::Error, "two".to_owned()),
            ]
        );
    }

    #[test]
    fn output_beyond_the_limit_is_dropped_with_a_warning() {
        let log = HookLog::new(100);
        for _ in 0..1000 {
            log.log(LogLevel::Info, "again");
        }
        log.lock().write(StandardStream::Output, &[b'x'; 100_000]);
        let lines = log.take();
        assert!(lines.len() < 10, "{lines:?}");
        assert!(
            lines
                .last()
                .is_some_and(|line| line.message.contains("100 bytes"))
        );
    }
}
