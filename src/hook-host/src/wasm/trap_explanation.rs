//! Converts a trap to an error text that tells the hook's author the cause.

use std::str::Utf8Error;
use std::time::Duration;

use wasmtime::{Trap, WasmBacktrace};

use super::call_types::CallError;
use crate::printable::{IS_UTF16, not_utf8};
use crate::{LogLevel, LogLine};

/// Maximum length of a hook's message in an error, in bytes.
const MAX_MESSAGE_BYTES: usize = 2048;
/// The memory that one value of a guest may cost the host, as a multiple of the output limit.
pub(super) const TRANSFER_FACTOR: usize = 2;

/// The error for a trap. `refused_growth` is the memory or table that the guest did not get.
pub(super) fn trap_error(
    error: &wasmtime::Error,
    log: &[LogLine],
    deadline: Duration,
    output: usize,
    refused_growth: Option<String>,
) -> CallError {
    let location = innermost_function(error);
    let text = match error.downcast_ref::<Trap>() {
        Some(Trap::Interrupt) => return CallError::Deadline(deadline),
        Some(Trap::StackOverflow) => format!("its stack overflowed{location}"),
        Some(Trap::MemoryOutOfBounds) => {
            format!("it left its memory, most often by recursing too deeply{location}")
        }
        Some(Trap::UnreachableCodeReached) => match (panic_message(log), &refused_growth) {
            (Some(message), None) => return CallError::Panic(shorten(&message)),
            (Some(message), Some(refused)) => {
                return CallError::Panic(format!("{} ({refused})", shorten(&message)));
            }
            // An allocator that gets no memory ends the program.
            (None, Some(refused)) => return CallError::Trap(refused.clone()),
            (None, None) => format!("it reached what it held to be unreachable{location}"),
        },
        Some(other) => format!("{other}{location}"),
        // The error is recognized by its text, because wasmtime does not export its type.
        None if error
            .root_cause()
            .to_string()
            .contains("fuel allocated for hostcalls") =>
        {
            format!("it handed over more than {TRANSFER_FACTOR} times {output} bytes at once")
        }
        // Among them: an instance whose memory would be larger than the limit from the beginning.
        None => match &refused_growth {
            Some(refused) => return CallError::Trap(refused.clone()),
            None => format!("{}{location}", error.root_cause()),
        },
    };
    let text = match refused_growth {
        Some(refused) => format!("{text}; before that, {refused}"),
        None => text,
    };
    CallError::Trap(shorten(&text))
}

/// The text ` in NAME` with the innermost named function of the backtrace; empty if there is none.
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

/// The error for an answer that is not UTF-8, if that is why a call failed. `is_xml` says whether the answer is XML.
pub(super) fn answer_not_utf8(error: &wasmtime::Error, is_xml: bool) -> Option<CallError> {
    // A text that the guest hands to the host during the call is converted within the guest's frames.
    if error.is::<WasmBacktrace>() {
        return None;
    }
    let utf8_error = *error.root_cause().downcast_ref::<Utf8Error>()?;
    // The bytes themselves are out of reach. XML begins with `<` or white space, and UTF-16 with a mark whose bytes occur
    // nowhere in UTF-8.
    let begins_with_mark = utf8_error.valid_up_to() == 0 && utf8_error.error_len() == Some(1);
    Some(CallError::NotUtf8(match is_xml && begins_with_mark {
        true => format!("its first byte occurs in no UTF-8 text: {IS_UTF16}"),
        false => not_utf8(utf8_error),
    }))
}

/// Shortens the message of a veto or failure. A failure names the memory that the guest did not get, because languages
/// with exceptions report only that there is no memory.
pub(super) fn shorten_message(error: CallError, refused_growth: Option<String>) -> CallError {
    match error {
        CallError::Veto(text) => CallError::Veto(shorten(&text)),
        CallError::Failed(text) => CallError::Failed(match refused_growth {
            Some(refused) => format!("{} ({refused})", shorten(&text)),
            None => shorten(&text),
        }),
        other => other,
    }
}

fn shorten(text: &str) -> String {
    if text.len() <= MAX_MESSAGE_BYTES {
        return text.to_owned();
    }
    let mut end = MAX_MESSAGE_BYTES;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{} ...", &text[..end])
}
