//! Explains to the hook's author what stopped a guest.

use std::time::Duration;

use wasmtime::{Trap, WasmBacktrace};

use super::call_and_answer::CallError;
use super::memory_limiter::{MemoryLimit, TableLimit};
use crate::{LogLevel, LogLine};

/// The most bytes of a hook's message that go into an error.
const MAX_MESSAGE: usize = 2048;
/// One value that a guest passes may cost the host this many times the output limit.
pub(super) const TRANSFER_FACTOR: usize = 2;

/// The error for a trap.
pub(super) fn trap_error(
    error: &wasmtime::Error,
    log: &[LogLine],
    deadline: Duration,
    output: usize,
) -> CallError {
    if let Some(limit) = error.downcast_ref::<MemoryLimit>() {
        return CallError::Trap(limit.to_string());
    }
    if let Some(limit) = error.downcast_ref::<TableLimit>() {
        return CallError::Trap(limit.to_string());
    }
    let place = innermost_function(error);
    let text = match error.downcast_ref::<Trap>() {
        Some(Trap::Interrupt) => return CallError::Deadline(deadline),
        Some(Trap::StackOverflow) => format!("its stack overflowed{place}"),
        Some(Trap::MemoryOutOfBounds) => {
            format!("it left its memory, most often by recursing too deeply{place}")
        }
        Some(Trap::UnreachableCodeReached) => match panic_message(log) {
            Some(words) => return CallError::Panic(shorten(&words)),
            None => format!("it reached what it held to be unreachable{place}"),
        },
        Some(other) => format!("{other}{place}"),
        // wasmtime does not export the type of this error.
        None if error
            .root_cause()
            .to_string()
            .contains("fuel allocated for hostcalls") =>
        {
            format!("it handed over more than {TRANSFER_FACTOR} times {output} bytes at once")
        }
        None => format!("{}{place}", error.root_cause()),
    };
    CallError::Trap(shorten(&text))
}

/// ` in NAME` for the innermost named function of the backtrace, or nothing.
fn innermost_function(error: &wasmtime::Error) -> String {
    let frames = error
        .downcast_ref::<WasmBacktrace>()
        .map(WasmBacktrace::frames)
        .unwrap_or_default();
    let name = frames.iter().find_map(|frame| frame.func_name());
    name.map(|name| format!(" in {}", name)).unwrap_or_default()
}

/// The panic message that a Rust guest wrote to standard error, without the `note:` lines.
fn panic_message(log: &[LogLine]) -> Option<String> {
    let errors: Vec<&str> = log
        .iter()
        .filter(|line| line.level == LogLevel::Error)
        .map(|line| line.message.trim())
        .collect();
    let start = errors
        .iter()
        .rposition(|line| line.contains("panicked at"))?;
    let message = errors[start..]
        .iter()
        .filter(|line| !line.starts_with("note: "));
    Some(message.copied().collect::<Vec<_>>().join(" "))
}

/// Shortens the message of a hook.
pub(super) fn shorten_message(error: CallError) -> CallError {
    match error {
        CallError::Veto(text) => CallError::Veto(shorten(&text)),
        CallError::Failed(text) => CallError::Failed(shorten(&text)),
        other => other,
    }
}

fn shorten(text: &str) -> String {
    if text.len() <= MAX_MESSAGE {
        return text.to_owned();
    }
    let mut end = MAX_MESSAGE;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{} ...", &text[..end])
}
