//! What a hook says while it runs, up to a limit.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use tokio::io::AsyncWrite;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamResult};

use crate::{LogLevel, LogLine};

/// At most this much in one write: what wasmtime lets a guest make the host allocate.
const WRITE: usize = 64 << 10;
/// What a line costs beside its text, so that empty lines are not free.
const LINE_COST: usize = 16;

/// The log of one call: lines through the host interface, and both standard streams.
#[derive(Clone)]
pub(super) struct Journal(Arc<Mutex<Inner>>);

struct Inner {
    lines: Vec<LogLine>,
    partial: [Vec<u8>; 2],
    left: usize,
    limit: usize,
    full: bool,
}

/// Standard output or error, line by line into the journal.
#[derive(Clone)]
pub(super) struct Stream {
    journal: Journal,
    kind: Kind,
}

/// Which standard stream.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    Output,
    Error,
}

impl Journal {
    pub(super) fn new(limit: usize) -> Self {
        Self(Arc::new(Mutex::new(Inner {
            lines: Vec::new(),
            partial: Default::default(),
            left: limit,
            limit,
            full: false,
        })))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn log(&self, level: LogLevel, message: &str) {
        let mut inner = self.lock();
        for line in message.lines() {
            inner.push(level, line);
        }
    }

    pub(super) fn stream(&self, kind: Kind) -> Stream {
        Stream {
            journal: self.clone(),
            kind,
        }
    }

    /// Everything said so far; the journal is empty afterwards.
    pub(super) fn take(&self) -> Vec<LogLine> {
        let mut inner = self.lock();
        for kind in [Kind::Output, Kind::Error] {
            let rest = std::mem::take(&mut inner.partial[kind as usize]);
            if !rest.is_empty() {
                inner.push(kind.level(), &String::from_utf8_lossy(&rest));
            }
        }
        std::mem::take(&mut inner.lines)
    }
}

impl Inner {
    fn push(&mut self, level: LogLevel, line: &str) {
        if self.full {
            return;
        }
        let cost = line.len() + LINE_COST;
        if cost > self.left {
            self.full = true;
            let message = format!("the rest is dropped: a call may log {} bytes", self.limit);
            self.lines.push(LogLine {
                level: LogLevel::Warn,
                message,
            });
            return;
        }
        self.left -= cost;
        self.lines.push(LogLine {
            level,
            message: line.to_owned(),
        });
    }

    fn write(&mut self, kind: Kind, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let partial = &mut self.partial[kind as usize];
            let room = self.limit.saturating_sub(partial.len());
            partial.extend_from_slice(&piece[..piece.len().min(room)]);
            if piece.ends_with(b"\n") {
                let line = std::mem::take(partial);
                let text = String::from_utf8_lossy(&line);
                self.push(kind.level(), text.trim_end_matches(['\r', '\n']));
            }
        }
    }
}

impl Kind {
    fn level(self) -> LogLevel {
        match self {
            Self::Output => LogLevel::Info,
            Self::Error => LogLevel::Error,
        }
    }
}

impl IsTerminal for Stream {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for Stream {
    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        Box::new(self.clone())
    }

    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }
}

#[wasmtime_wasi::async_trait]
impl Pollable for Stream {
    async fn ready(&mut self) {}
}

// What is too much is swallowed, not refused: a hook that says too much still does its work.
impl OutputStream for Stream {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.journal.lock().write(self.kind, &bytes);
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(WRITE)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.journal.lock().write(self.kind, bytes);
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
    fn streams_become_lines() {
        let journal = Journal::new(1000);
        journal.lock().write(Kind::Error, b"one\ntw");
        journal.lock().write(Kind::Output, b"aside\r\n");
        journal.lock().write(Kind::Error, b"o");
        let lines: Vec<_> = journal
            .take()
            .into_iter()
            .map(|l| (l.level, l.message))
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
    fn a_flood_is_cut_and_said_to_be() {
        let journal = Journal::new(100);
        for _ in 0..1000 {
            journal.log(LogLevel::Info, "again");
        }
        journal.lock().write(Kind::Output, &[b'x'; 100_000]);
        let lines = journal.take();
        assert!(lines.len() < 10, "{lines:?}");
        assert!(
            lines
                .last()
                .is_some_and(|l| l.message.contains("100 bytes"))
        );
    }
}
