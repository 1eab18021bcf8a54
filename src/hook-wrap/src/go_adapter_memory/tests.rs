//! The allocation function that is added to modules of Go, and which modules are refused.
use wasm_encoder::{DataSection, MemorySection, MemoryType};

use super::*;

const START: u32 = 1024;

/// A module with one function type, function, memory, global and export, and data segments at these addresses.
fn module(data: &[(u32, &[u8])]) -> Vec<u8> {
    let mut module = Module::new();
    let mut types = TypeSection::new();
    types.ty().function([], []);
    let kind = GlobalType {
        val_type: ValType::I32,
        mutable: false,
        shared: false,
    };
    let memory = MemoryType {
        minimum: 4,
        maximum: None,
        memory64: false,
        shared: false,
        page_size_log2: None,
    };
    let mut code = Function::new([]);
    code.instructions().end();
    let mut segments = DataSection::new();
    for (address, bytes) in data {
        let address = ConstExpr::i32_const(address.cast_signed());
        segments.active(0, &address, bytes.iter().copied());
    }
    module
        .section(&types)
        .section(FunctionSection::new().function(0))
        .section(MemorySection::new().memory(memory))
        .section(GlobalSection::new().global(kind, &ConstExpr::i32_const(0)))
        .section(ExportSection::new().export("f", ExportKind::Func, 0))
        .section(CodeSection::new().function(&code))
        .section(&segments);
    module.finish()
}

fn error_text(data: &[(u32, &[u8])]) -> String {
    let core = module(data);
    wasmparser::validate(&core).unwrap();
    with_adapter_memory(&core).unwrap_err().to_string()
}

#[test]
fn added_function_allocates_from_the_memory_after_the_mark() {
    let data = [b"abcd", MARK.as_slice(), &[0; 100]].concat();
    // Another variable follows immediately.
    let next = START + 4 + 32 + RESERVED_BYTES;
    let core = module(&[(START, &data), (next, b"next")]);
    let out = with_adapter_memory(&core).unwrap().unwrap();
    wasmparser::validate(&out).unwrap();
    let counts = count(&out).unwrap();
    assert_eq!((counts.types, counts.functions, counts.globals), (2, 2, 2));
    let text = String::from_utf8_lossy(&out);
    assert!(text.contains(ALLOCATE_EXPORT));
    let globals = Parser::new(0)
        .parse_all(&out)
        .find_map(|payload| match payload {
            Ok(Payload::GlobalSection(globals)) => Some(globals),
            _ => None,
        });
    let last = globals.unwrap().into_iter().last().unwrap().unwrap();
    let value = last.init_expr.get_operators_reader().read().unwrap();
    let address = (START + 4 + 32).cast_signed();
    assert!(matches!(value, Operator::I32Const { value } if value == address));
}

#[test]
fn module_without_the_mark_gets_no_function() {
    let core = module(&[(START, b"abcd")]);
    wasmparser::validate(&core).unwrap();
    assert!(with_adapter_memory(&core).unwrap().is_none());
}

/// The adapter would overwrite constants that follow a copy of the mark.
#[test]
fn copies_of_the_mark_and_memory_in_use_are_errors() {
    let twice = [MARK.as_slice(), MARK].concat();
    assert!(error_text(&[(START, &twice)]).contains("2 times"));
    let two_segments: [(u32, &[u8]); 2] = [(START, MARK), (200 << 10, MARK)];
    assert!(error_text(&two_segments).contains("2 times"));
    let constants = [MARK.as_slice(), b"constants"].concat();
    assert!(error_text(&[(START, &constants)]).contains("in use"));
    let other: [(u32, &[u8]); 2] = [(START, MARK), (START + 32 + RESERVED_BYTES - 1, b"x")];
    assert!(error_text(&other).contains("in use"));
}

#[test]
fn entries_are_added_to_lists_of_any_length() {
    assert_eq!(append_entries(&[1, 9], &[2, 1, 7]).unwrap(), [2, 9, 7]);
    assert_eq!(
        append_entries(&[0x7f, 9], &[2, 1, 7]).unwrap(),
        [0x80, 1, 9, 7]
    );
    assert!(append_entries(&[], &[2, 1, 7]).is_err());
}
