//! `VIRT_HOOK_COMPILE_UNCONFINED`: what it can be, and when it is pointed out.

use super::handwritten_module::refusing_module;
use super::{ProgramOutput, program, text, vmi};

const VARIABLE: &str = "VIRT_HOOK_COMPILE_UNCONFINED";

#[test]
fn the_permission_to_compile_unconfined_is_pointed_out_when_something_is_compiled() {
    let temp_dir = tempfile::tempdir().unwrap();
    let module = temp_dir.path().join("hook.wasm");
    std::fs::write(&module, refusing_module("no")).unwrap();
    let vmi = vmi(temp_dir.path());
    let run = |arguments: &[&str], value: &str| -> ProgramOutput {
        let mut program = program();
        program.args(arguments).env(VARIABLE, value);
        let cache = temp_dir.path().join("cache");
        let output = program.env("XDG_CACHE_HOME", cache).output();
        output.unwrap().into()
    };
    let module = text(&module);
    for (arguments, value, is_warned) in [
        (&["inspect", module][..], "true", true),
        // Its code is in the cache.
        (&["inspect", module], "true", false),
        (&["run", module, "--vmi", text(&vmi)], "true", false),
        (&["bench", module, "--calls", "1"], "true", true),
        (&["bench", module, "--calls", "1"], "false", false),
        (
            &["pull", "localhost:1/x:1", "--into", "x", "--plain-http"],
            "true",
            false,
        ),
        (&["render", "--vmi", text(&vmi)], "true", false),
    ] {
        let output = run(arguments, value);
        let warned = output
            .err
            .contains(&format!("warning: {VARIABLE}: modules"));
        assert_eq!(warned, is_warned, "{arguments:?} {value}: {}", output.err);
    }
    for arguments in [
        &["inspect", module][..],
        &["check", module],
        &["bench", module],
        &["run", module, "--vmi", text(&vmi)],
        &["compile", module, "--into", "x"],
        &["serve", "--module", module, "--socket", "x"],
    ] {
        for value in ["yes", "1", ""] {
            let refused = run(arguments, value);
            assert_eq!(refused.code, 2, "{arguments:?} {value:?}: {}", refused.err);
            assert!(
                refused.err.contains("true") && refused.err.contains("false"),
                "{arguments:?} {value:?}: {}",
                refused.err
            );
        }
    }
}
