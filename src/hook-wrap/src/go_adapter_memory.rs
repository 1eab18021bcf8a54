//! Gives modules of Go's compiler the memory that the adapter of WASI preview 1 needs.
//!
//! The adapter needs two blocks of memory (its state and its stack, 64 KiB each) at the first call of WASI, which Go's
//! runtime makes while it starts. Neither of the usual sources can be used then: Go cannot run an exported
//! `cabi_realloc` before it has started, and Go's heap uses pages that other code adds to the memory as its own.
//! So the SDK's package `hooks` has a variable that begins with [`MARK`], and the module gets a function that allocates
//! from that variable.

#[cfg(test)]
mod tests;

use wasm_encoder::{
    BlockType, CodeSection, ConstExpr, Encode, ExportKind, ExportSection, Function,
    FunctionSection, GlobalSection, GlobalType, Module, RawSection, SectionId, TypeSection,
    ValType,
};
use wasmparser::{BinaryReader, BinaryReaderError, Data, DataKind, Operator, Parser, Payload};

/// The start of the variable: `virt-hook: memory for WASI here.`
const MARK: &[u8; 32] = b"virt-hook: memory for WASI here.";

/// The size of the memory after the mark, as the SDK declares it.
const RESERVED_BYTES: u32 = 128 << 10;

/// The export under which wit-component finds the allocation function.
const ALLOCATE_EXPORT: &str = "cabi_realloc_adapter";

/// Why the allocation function cannot be added.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GoAdapterMemoryError {
    #[error(transparent)]
    Damaged(#[from] BinaryReaderError),
    #[error("its memory has the SDK's mark {} times", .0)]
    SeveralMarks(usize),
    #[error("the memory after the SDK's mark is in use")]
    InUse,
}

/// The numbers of types, functions and globals of a module, which are the indexes of the added ones.
#[derive(Debug, Default)]
struct Counts {
    types: u32,
    functions: u32,
    globals: u32,
}

/// The module with the allocation function; `None` if it has no variable with the mark.
pub(crate) fn with_adapter_memory(core: &[u8]) -> Result<Option<Vec<u8>>, GoAdapterMemoryError> {
    let Some(memory) = reserved_memory(&data_segments(core)?)? else {
        return Ok(None);
    };
    let counts = count(core)?;
    let mut module = Module::new();
    for payload in Parser::new(0).parse_all(core) {
        let Some((id, range)) = payload?.as_section() else {
            continue;
        };
        let content = core
            .get(range.start as usize..range.end as usize)
            .unwrap_or_default();
        let data = match added_entry(id, &counts, memory) {
            Some(entry) => append_entries(content, &entry)?,
            None => content.to_vec(),
        };
        module.section(&RawSection { id, data: &data });
    }
    Ok(Some(module.finish()))
}

/// Counts the types, functions and globals, including imported ones.
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
            _ => {}
        }
    }
    Ok(counts)
}

/// The addresses and bytes of the data segments that are copied into the memory at the start.
fn data_segments(core: &[u8]) -> Result<Vec<(u64, &[u8])>, BinaryReaderError> {
    let mut addressed = Vec::new();
    for payload in Parser::new(0).parse_all(core) {
        if let Payload::DataSection(segments) = payload? {
            for segment in segments {
                let segment = segment?;
                addressed.extend(address(&segment)?.map(|address| (address, segment.data)));
            }
        }
    }
    Ok(addressed)
}

fn address(segment: &Data<'_>) -> Result<Option<u64>, BinaryReaderError> {
    let DataKind::Active { offset_expr, .. } = &segment.kind else {
        return Ok(None);
    };
    let operator = offset_expr.get_operators_reader().read()?;
    Ok(match operator {
        Operator::I32Const { value } => Some(u64::from(value as u32)),
        _ => None,
    })
}

/// The address after the only mark. The bytes after the mark must be zero as in the SDK's variable, and not constants
/// after a copy of the text, because the adapter overwrites them.
fn reserved_memory(segments: &[(u64, &[u8])]) -> Result<Option<u32>, GoAdapterMemoryError> {
    let marks = segments.iter().flat_map(|(address, data)| {
        let positions = data.windows(MARK.len()).enumerate();
        positions
            .filter(|(_, bytes)| bytes == MARK)
            .map(move |(position, _)| address + (position + MARK.len()) as u64)
    });
    let start = match marks.collect::<Vec<u64>>()[..] {
        [] => return Ok(None),
        [start] => start,
        ref several => return Err(GoAdapterMemoryError::SeveralMarks(several.len())),
    };
    let reserved = start..start + u64::from(RESERVED_BYTES);
    let is_used = segments.iter().any(|(address, data)| {
        let index = |end: u64| (end.saturating_sub(*address) as usize).min(data.len());
        let bytes = &data[index(reserved.start)..index(reserved.end)];
        bytes.iter().any(|byte| *byte != 0)
    });
    match u32::try_from(reserved.end) {
        Ok(_) if !is_used => Ok(u32::try_from(start).ok()),
        _ => Err(GoAdapterMemoryError::InUse),
    }
}

/// The entry to append to a section of the module, encoded as a section of its own; `None` for other sections.
fn added_entry(section: u8, counts: &Counts, memory: u32) -> Option<Vec<u8>> {
    let mut content = Vec::new();
    if section == SectionId::Type as u8 {
        // (old, old size, alignment, new size) -> address
        let mut types = TypeSection::new();
        types.ty().function([ValType::I32; 4], [ValType::I32]);
        types.encode(&mut content);
    } else if section == SectionId::Function as u8 {
        FunctionSection::new()
            .function(counts.types)
            .encode(&mut content);
    } else if section == SectionId::Global as u8 {
        // The next free address of the reserved memory.
        let kind = GlobalType {
            val_type: ValType::I32,
            mutable: true,
            shared: false,
        };
        let address = ConstExpr::i32_const(memory.cast_signed());
        GlobalSection::new()
            .global(kind, &address)
            .encode(&mut content);
    } else if section == SectionId::Export as u8 {
        ExportSection::new()
            .export(ALLOCATE_EXPORT, ExportKind::Func, counts.functions)
            .encode(&mut content);
    } else if section == SectionId::Code as u8 {
        let end = memory.saturating_add(RESERVED_BYTES);
        CodeSection::new()
            .function(&allocate(counts.globals, end))
            .encode(&mut content);
    } else {
        return None;
    }
    Some(content)
}

/// The allocation function: returns the next free address, rounded up to 16; traps if the end is exceeded.
fn allocate(next: u32, end: u32) -> Function {
    const OLD: u32 = 0;
    const NEW_SIZE: u32 = 3;
    let mut function = Function::new([]);
    function
        .instructions()
        // The parameter's local holds the address.
        .global_get(next)
        .i32_const(15)
        .i32_add()
        .i32_const(-16)
        .i32_and()
        .local_set(OLD)
        // next = address + new size
        .local_get(OLD)
        .local_get(NEW_SIZE)
        .i32_add()
        .global_set(next)
        .global_get(next)
        .i32_const(end.cast_signed())
        .i32_gt_u()
        .if_(BlockType::Empty)
        .unreachable()
        .end()
        .local_get(OLD)
        .end();
    function
}

/// A section's content (a counted list) with the entries of an encoded section appended.
fn append_entries(content: &[u8], added: &[u8]) -> Result<Vec<u8>, BinaryReaderError> {
    let (mut old, mut new) = (BinaryReader::new(content, 0), BinaryReader::new(added, 0));
    new.read_var_u32()?; // The size of the encoded section.
    let count = old.read_var_u32()?.saturating_add(new.read_var_u32()?);
    let mut out = Vec::new();
    count.encode(&mut out);
    for mut entries in [old, new] {
        out.extend(entries.read_bytes(entries.bytes_remaining())?);
    }
    Ok(out)
}
