//! `bench`: which measurements are made; their values are not checked.

use super::{smbios, text, virt_hook};

#[test]
fn calls_are_measured_in_process_and_through_serve() {
    let module = smbios();
    let json = virt_hook(&["bench", text(&module), "--calls", "20", "--json"]).json();
    let result = &json["result"];
    assert_eq!(result["hookPoint"], "OnDefineDomain");
    for times in [
        &result["compile"],
        &result["load"],
        &result["inProcess"],
        &result["served"]["calls"],
    ] {
        let micros = |name: &str| times[name].as_u64().unwrap();
        assert!(micros("fastestMicros") > 0, "{result:#}");
        assert!(micros("fastestMicros") <= micros("p50Micros"), "{result:#}");
        assert!(micros("p50Micros") <= micros("p99Micros"), "{result:#}");
    }
    for memory in [
        &result["compilePeakMemory"],
        &result["callPeakMemory"],
        &result["served"]["idleMemory"],
    ] {
        assert!(memory.as_u64().unwrap() > 0, "{result:#}");
    }
}

#[test]
fn hook_points_that_sidecars_do_not_have_are_measured_in_process() {
    let temp_dir = tempfile::tempdir().unwrap();
    let module = super::example_modules::hook_at_every_point();
    let settings = "hookPoints: [{name: PreStart}]\n";
    let copy = temp_dir.path().join("every.wasm");
    std::fs::copy(module, &copy).unwrap();
    super::write(temp_dir.path(), "hook.yaml", settings);
    // The hook subscribes to OnDefineDomain too, which this hook.yaml removes.
    let benched = virt_hook(&["bench", text(&copy), "--calls", "5", "--json"]);
    let json = benched.json();
    assert_eq!(json["result"]["hookPoint"], "PreStart", "{}", benched.err);
    assert!(json["result"]["served"].is_null());
}

#[test]
fn vmi_without_hook_calls_is_not_measured() {
    let temp_dir = tempfile::tempdir().unwrap();
    let vmi = super::vmi(temp_dir.path());
    let module = temp_dir.path().join("every.wasm");
    std::fs::copy(super::example_modules::hook_at_every_point(), &module).unwrap();
    for (point, part) in [
        ("PreCloudInitIso", "has no cloud-init data"),
        ("OnAttachDevice", "has no device that can be attached"),
    ] {
        let settings = format!("hookPoints: [{{name: {point}}}]\n");
        super::write(temp_dir.path(), "hook.yaml", &settings);
        let arguments = ["bench", text(&module), "--vmi", text(&vmi), "--calls", "1"];
        let refused = virt_hook(&arguments);
        assert_eq!(refused.code, 1, "{}", refused.err);
        assert!(refused.err.contains(part), "{}", refused.err);
    }
}
