//! Reuse of the code of functions, damaged cache files, and a file per module.

use super::*;

impl FunctionCodes {
    /// The numbers of used functions that were known and that were compiled.
    pub(in crate::wasm) fn known_and_new(&self) -> (usize, usize) {
        let known = self.reused();
        (known, self.used.lock().unwrap().len() - known)
    }

    /// The functions that the next compilation knows.
    pub(in crate::wasm) fn reread(&self) -> Self {
        Self::read(&*written(self)).unwrap()
    }
}

fn written(codes: &FunctionCodes) -> Vec<u8> {
    let mut bytes = Vec::new();
    codes.write(&mut bytes).unwrap();
    bytes
}

fn filled() -> FunctionCodes {
    let codes = FunctionCodes::default();
    assert!(codes.get(&[1; KEY_BYTES]).is_none());
    assert!(codes.insert(&[1; KEY_BYTES], b"one".to_vec()));
    assert!(codes.insert(&[2; KEY_BYTES], b"".to_vec()));
    codes
}

#[test]
fn function_code_of_a_compilation_is_reused_by_the_next_one() {
    let codes = FunctionCodes::read(&*written(&filled())).unwrap();
    assert_eq!(codes.get(&[1; KEY_BYTES]).as_deref(), Some(&b"one"[..]));
    assert!(codes.get(&[3; KEY_BYTES]).is_none());
    assert!(codes.insert(&[3; KEY_BYTES], b"three".to_vec()));
    // The second function is not used any more.
    let codes = FunctionCodes::read(&*written(&codes)).unwrap();
    let known = [1, 2, 3].map(|key| codes.get(&[key; KEY_BYTES]).is_some());
    assert_eq!(known, [true, false, true]);
}

#[test]
fn damaged_cache_file_is_ignored() {
    let bytes = written(&filled());
    for cut in 1..bytes.len() {
        let codes = FunctionCodes::read(&bytes[..cut]).unwrap();
        // A partial entry makes the whole file ignored.
        let ends_after_first_entry = cut == KEY_BYTES + LENGTH_BYTES + 3;
        assert_eq!(
            codes.get(&[1; KEY_BYTES]).is_some(),
            ends_after_first_entry,
            "{cut}"
        );
    }
    let mut damaged = bytes;
    damaged[KEY_BYTES] = 0xff;
    assert!(FunctionCodes::read(&*damaged).unwrap().known.is_empty());
    assert!(!FunctionCodes::default().insert(b"short", Vec::new()));
}

#[test]
fn each_module_file_has_its_own_functions_file() {
    let (dir, module) = (Path::new("/cache"), Path::new("/etc/../etc/passwd"));
    let file = functions_file(dir, module);
    assert_eq!(file, functions_file(dir, Path::new("/etc/passwd")));
    assert_ne!(file, functions_file(dir, Path::new("/etc/group")));
}
