//! Prepares modules of Go's compiler for the adapter of WASI preview 1.
//!
//! The adapter needs two blocks of memory (its state and its stack, 64 KiB each) at the first call of WASI, which Go's
//! runtime makes while it starts. Neither of the usual sources can be used then: Go cannot run an exported
//! `cabi_realloc` before it has started, and Go's heap takes pages that somebody else adds to the memory for its own.
//! So the SDK's package `hooks` has a variable that begins with [`MARK`], and the module gets a function that hands out
//! the memory of that variable.

use wasmparser::{BinaryReaderError, DataKind, Operator, Parser, Payload};

/// The start of the variable: `virt-hook: memory for WASI here.`
const MARK: &[u8; 32] = b"virt-hook: memory for WASI here.";

/// The size of the memory after the mark, as the SDK declares it.
const RESERVED: u32 = 128 << 10;

/// The name by which wit-component finds the function.
const ALLOCATE: &str = "cabi_realloc_adapter";

const SECTION_TYPE: u8 = 1;
const SECTION_FUNCTION: u8 = 3;
const SECTION_GLOBAL: u8 = 6;
const SECTION_EXPORT: u8 = 7;
const SECTION_CODE: u8 = 10;

const I32: u8 = 0x7f;

/// The positions in the module that the function's code names.
#[derive(Debug, Default)]
struct Counts {
    types: u32,
    functions: u32,
    globals: u32,
    /// The address after the mark.
    memory: Option<u32>,
}

/// The module with the function; `None` if it has no variable with the mark.
pub(crate) fn with_adapter_memory(core: &[u8]) -> Result<Option<Vec<u8>>, BinaryReaderError> {
    let counts = count(core)?;
    let Some(memory) = counts.memory else {
        return Ok(None);
    };
    let mut out = core[..8].to_vec();
    for payload in Parser::new(0).parse_all(core) {
        let Some((id, range)) = payload?.as_section() else {
            continue;
        };
        let content = core
            .get(range.start as usize..range.end as usize)
            .unwrap_or_default();
        let content = match entry(id, &counts, memory) {
            Some(entry) => appended(content, &entry),
            None => content.to_vec(),
        };
        out.push(id);
        out.extend(leb(content.len() as u64));
        out.extend(content);
    }
    Ok(Some(out))
}

fn count(core: &[u8]) -> Result<Counts, BinaryReaderError> {
    let mut counts = Counts::default();
    for payload in Parser::new(0).parse_all(core) {
        match payload? {
            Payload::TypeSection(types) => counts.types = types.count(),
            Payload::ImportSection(imports) => {
                for import in imports.into_imports() {
                    match import?.ty {
                        wasmparser::TypeRef::Func(_) => counts.functions += 1,
                        wasmparser::TypeRef::Global(_) => counts.globals += 1,
                        _ => {}
                    }
                }
            }
            Payload::FunctionSection(functions) => counts.functions += functions.count(),
            Payload::GlobalSection(globals) => counts.globals += globals.count(),
            Payload::DataSection(segments) => {
                for segment in segments {
                    counts.memory = counts.memory.or(marked_memory(&segment?)?);
                }
            }
            _ => {}
        }
    }
    Ok(counts)
}

fn marked_memory(segment: &wasmparser::Data<'_>) -> Result<Option<u32>, BinaryReaderError> {
    let DataKind::Active { offset_expr, .. } = &segment.kind else {
        return Ok(None);
    };
    let Operator::I32Const { value } = offset_expr.get_operators_reader().read()? else {
        return Ok(None);
    };
    let mut places = segment.data.windows(MARK.len());
    let place = places.position(|bytes| bytes == MARK);
    Ok(place.and_then(|place| {
        u32::try_from(place + MARK.len())
            .ok()?
            .checked_add(value as u32)
    }))
}

/// What a section gets at its end.
fn entry(section: u8, counts: &Counts, memory: u32) -> Option<Vec<u8>> {
    Some(match section {
        // (old, old size, alignment, new size) -> address
        SECTION_TYPE => [&[0x60, 4][..], &[I32; 4], &[1, I32]].concat(),
        SECTION_FUNCTION => leb(counts.types.into()),
        // The next free address.
        SECTION_GLOBAL => [&[I32, 1, 0x41][..], &signed_leb(memory), &[0x0b]].concat(),
        SECTION_EXPORT => {
            let name = ALLOCATE.as_bytes();
            let length = leb(name.len() as u64);
            [&length, name, &[0], &leb(counts.functions.into())].concat()
        }
        SECTION_CODE => {
            let body = allocate(counts.globals, memory.saturating_add(RESERVED));
            [leb(body.len() as u64), body].concat()
        }
        _ => return None,
    })
}

/// The body of the function: returns the next free address, rounded up to 16; beyond the end it traps.
fn allocate(global: u32, end: u32) -> Vec<u8> {
    let (global, end) = (leb(global.into()), signed_leb(end));
    [
        // No locals. address = (next + 15) & -16, which replaces the parameter "old".
        &[0, 0x23][..],
        &global,
        &[0x41, 15, 0x6a, 0x41, 0x70, 0x71, 0x21, 0],
        // next = address + new size
        &[0x20, 0, 0x20, 3, 0x6a, 0x24],
        &global,
        // if next > end: unreachable
        &[0x23],
        &global,
        &[0x41],
        &end,
        &[0x4b, 0x04, 0x40, 0x00, 0x0b],
        &[0x20, 0, 0x0b],
    ]
    .concat()
}

/// A section's content, a counted list, with one more entry.
fn appended(content: &[u8], entry: &[u8]) -> Vec<u8> {
    let length = content.iter().take_while(|byte| **byte >= 0x80).count() + 1;
    let (count, entries) = content.split_at(length.min(content.len()));
    let count = count
        .iter()
        .rev()
        .fold(0_u64, |count, byte| count << 7 | u64::from(byte & 0x7f));
    [&leb(count + 1), entries, entry].concat()
}

fn leb(mut value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
    out
}

/// An `i32.const`'s operand.
fn signed_leb(value: u32) -> Vec<u8> {
    let mut value = value as i32;
    let mut out = Vec::new();
    loop {
        let byte = (value & 0x7f) as u8;
        value >>= 7;
        if (value == 0 && byte & 0x40 == 0) || (value == -1 && byte & 0x40 != 0) {
            out.push(byte);
            return out;
        }
        out.push(byte | 0x80);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// One function type, function, memory, global, export and a data segment at 1024.
    fn module(data: &[u8]) -> Vec<u8> {
        let segment = [
            &[1, 0, 0x41, 0x80, 0x08, 0x0b][..],
            &leb(data.len() as u64),
            data,
        ]
        .concat();
        [
            b"\0asm\x01\0\0\0".as_slice(),
            &[1, 4, 1, 0x60, 0, 0],
            &[3, 2, 1, 0],
            &[5, 3, 1, 0, 4],
            &[6, 6, 1, I32, 0, 0x41, 0, 0x0b],
            &[7, 5, 1, 1, b'f', 0, 0],
            &[10, 4, 1, 2, 0, 0x0b],
            &[&[11][..], &leb(segment.len() as u64), &segment].concat(),
        ]
        .concat()
    }

    #[test]
    fn a_module_with_the_mark_hands_out_the_memory_after_it() {
        let core = module(&[b"abcd", MARK.as_slice()].concat());
        let out = with_adapter_memory(&core).unwrap().unwrap();
        wasmparser::validate(&out).unwrap();
        let counts = count(&out).unwrap();
        assert_eq!(counts.memory, Some(1024 + 4 + 32));
        assert_eq!((counts.types, counts.functions, counts.globals), (2, 2, 2));
        let text = String::from_utf8_lossy(&out);
        assert!(text.contains(ALLOCATE));
    }

    #[test]
    fn a_module_without_the_mark_is_left_alone() {
        let core = module(b"abcd");
        wasmparser::validate(&core).unwrap();
        assert!(with_adapter_memory(&core).unwrap().is_none());
    }

    #[test]
    fn numbers_are_encoded_as_wasm_reads_them() {
        assert_eq!(leb(624_485), [0xe5, 0x8e, 0x26]);
        assert_eq!(signed_leb(64), [0xc0, 0]);
        assert_eq!(signed_leb(-1_i32 as u32), [0x7f]);
        assert_eq!(appended(&[1, 9], &[7]), [2, 9, 7]);
        assert_eq!(appended(&[0x7f, 9], &[7]), [0x80, 1, 9, 7]);
    }
}
