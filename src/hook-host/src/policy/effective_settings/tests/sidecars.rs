//! Settings of gRPC sidecars.

use super::*;

#[test]
fn sidecars_are_unrestricted_or_forbidden() {
    let operator = OperatorPolicy::parse(Path::new("p.yaml"), "sidecars: Forbid\n").unwrap();
    let limits = Limits::default();
    assert!(resolve_sidecar(Vec::new(), &limits, None, None).is_ok());
    let error = resolve_sidecar(Vec::new(), &limits, None, Some(&operator))
        .err()
        .unwrap();
    assert_eq!(
        error.to_string(),
        "p.yaml:1:11: gRPC sidecars are forbidden"
    );
    let yaml = |text| HookYaml::parse(Path::new("h/hook.yaml"), text).unwrap();
    let points = || Description::parse(PLAIN_DESCRIPTION).unwrap().hook_points;
    let hook_yaml = yaml("failurePolicy: Ignore\npriority: 8\nhookPoints: [{name: Shutdown}]\n");
    let settings = resolve_sidecar(points(), &limits, Some(&hook_yaml), None).unwrap();
    assert_eq!(settings.failure_policy, FailurePolicy::Ignore);
    assert_eq!(
        (settings.hook_points.len(), settings.hook_points[0].priority),
        (1, 8)
    );
    let hook_yaml = yaml("priority: 8\nallow: {paths: []}\n");
    let error = resolve_sidecar(points(), &limits, Some(&hook_yaml), None)
        .err()
        .unwrap();
    assert!(
        error
            .to_string()
            .starts_with("h/hook.yaml:2:16: allow.paths"),
        "{error}"
    );
}
