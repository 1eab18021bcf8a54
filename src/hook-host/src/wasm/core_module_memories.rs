//! Refuses core modules with several memories.
//!
//! No toolchain for hooks emits them. The engine cannot refuse them, because wasmtime joins the components of a composed
//! component with modules of its own, which have the memories of both sides.

use wasmparser_of_wasmtime::{Parser, Payload, TypeRef};

/// A core module has several memories.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "a core module in it has {count} memories, and may have one: build it without multi-memory"
)]
pub(super) struct SeveralMemories {
    count: usize,
}

/// Checks that no core module of a component imports and defines more than one memory. What cannot be parsed is left to
/// the compiler, which says why.
pub(super) fn check(component: &[u8]) -> Result<(), SeveralMemories> {
    // The memories of the modules around the current position, the innermost last.
    let mut memories = vec![0_usize];
    for payload in Parser::new(0).parse_all(component) {
        let Ok(payload) = payload else {
            return Ok(());
        };
        let found = match payload {
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => {
                memories.push(0);
                0
            }
            Payload::End(_) => {
                memories.pop();
                0
            }
            Payload::MemorySection(section) => section.count() as usize,
            Payload::ImportSection(section) => section
                .into_imports()
                .filter(|import| import.as_ref().is_ok_and(|import| is_memory(&import.ty)))
                .count(),
            _ => 0,
        };
        if let Some(memories) = memories.last_mut() {
            *memories += found;
            if *memories > 1 {
                return Err(SeveralMemories { count: *memories });
            }
        }
    }
    Ok(())
}

fn is_memory(import: &TypeRef) -> bool {
    matches!(import, TypeRef::Memory(_))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_text(text: &str) -> Result<(), SeveralMemories> {
        check(&wat::parse_str(text).unwrap())
    }

    #[test]
    fn a_core_module_has_one_memory() {
        let one_each = r#"(component
            (core module $a (memory (export "m") 1))
            (core module $b (import "a" "m" (memory 1)) (func))
            (component (core module (memory 1)))
            (core module (memory 1)))"#;
        assert_eq!(check_text(one_each), Ok(()));
        for several in [
            "(component (core module (memory 1) (memory 1)))",
            r#"(component (core module (import "a" "m" (memory 1)) (memory 1)))"#,
            r#"(component (component (core module (import "a" "m" (memory 1)) (import "a" "n" (memory 1)))))"#,
        ] {
            assert_eq!(check_text(several), Err(SeveralMemories { count: 2 }));
        }
        assert_eq!(check(b"\0asm"), Ok(()));
    }
}
