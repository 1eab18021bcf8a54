//! `bench`: figures, whatever they are.

use super::{smbios, text, virt_hook};

#[test]
fn both_ways_are_measured_side_by_side() {
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
fn what_is_never_served_is_measured_in_process() {
    let place = tempfile::tempdir().unwrap();
    let module = super::pod::every_point();
    let settings = "hookPoints: [{name: PreStart}]\n";
    let copy = place.path().join("every.wasm");
    std::fs::copy(module, &copy).unwrap();
    super::write(place.path(), "hook.yaml", settings);
    // It asks for OnDefineDomain too, which this hook.yaml takes away.
    let benched = virt_hook(&["bench", text(&copy), "--calls", "5", "--json"]);
    let json = benched.json();
    assert_eq!(json["result"]["hookPoint"], "PreStart", "{}", benched.err);
    assert!(json["result"]["served"].is_null());
}
