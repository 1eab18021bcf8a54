//! Guests written by hand: a frame that is a hook, and what one of them does in it.

use std::path::Path;

const DESCRIPTION: &str = r#"{"name": "by-hand", "hookPoints": [{"name": "PreCloudInitIso"},
    {"name": "OnDefineDomain"}], "wishes": {"paths": ["/domain/**"]}}"#;

/// What a guest does in place of the frame's comments.
#[derive(Clone, Copy, Default)]
pub struct ByHand {
    /// Functions of the host.
    pub imports: &'static str,
    /// Tables, globals and the like.
    pub fields: &'static str,
    /// At `PreCloudInitIso`, before it gives back what it was given.
    pub documents: &'static str,
    /// At `OnDefineDomain`, before it gives back what it was given.
    pub define: &'static str,
}

impl ByHand {
    /// The module.
    pub fn module(&self) -> Vec<u8> {
        let frame = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/guests/frame.wat");
        let text = std::fs::read_to_string(frame)
            .unwrap()
            .replace("DESCRIPTION", &DESCRIPTION.escape_default().to_string())
            .replace("LENGTH", &DESCRIPTION.len().to_string())
            .replace("\n  ;;IMPORTS", self.imports)
            .replace("\n  ;;FIELDS", self.fields)
            .replace("\n    ;;DOCUMENTS", self.documents)
            .replace("\n    ;;DEFINE", self.define);
        hook_wrap::wrap(&wat::parse_str(text).unwrap()).unwrap()
    }
}

/// A component whose only content takes a compiler long: `functions` functions, each of 20,000
/// additions.
pub fn explosion(functions: usize) -> Vec<u8> {
    let addition = [0x20, 0, 0x6a]; // local.get 0, i32.add
    let mut body = vec![0, 0x20, 0]; // no locals of its own; local.get 0
    body.extend(addition.repeat(20_000));
    body.push(0x0b);
    let code = prefixed(&body);
    let mut core = b"\0asm\x01\0\0\0".to_vec();
    core.extend(section(1, &[1, 0x60, 1, 0x7f, 1, 0x7f]));
    core.extend(section(
        3,
        &[leb128(functions), vec![0; functions]].concat(),
    ));
    core.extend(section(
        10,
        &[leb128(functions), code.repeat(functions)].concat(),
    ));
    [b"\0asm\x0d\0\x01\0".to_vec(), section(1, &core)].concat()
}

fn section(id: u8, content: &[u8]) -> Vec<u8> {
    [vec![id], prefixed(content)].concat()
}

fn prefixed(content: &[u8]) -> Vec<u8> {
    [leb128(content.len()), content.to_vec()].concat()
}

fn leb128(mut number: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number > 0x7f {
        bytes.push(0x80 | (number & 0x7f) as u8);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}
