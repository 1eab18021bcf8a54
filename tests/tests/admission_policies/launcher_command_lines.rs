//! Tests the policies on launchers whose flags are in other places than those of the rendered pods: a launcher gets its
//! hooks, or its pod is refused with a reason.

use serde_json::{Value as Json, json};

use crate::admission_request::Request;
use crate::pod_additions::{PodAdditions, additions};
use crate::pod_corpus::{annotated, compute, pod, words};
use crate::shipped_policies::{
    IMAGE, annotation_policies, image_volume, server_with_policies, strings,
};

/// A policy, a request for a pod to which it adds hooks, and what it adds.
struct Case {
    policy: &'static str,
    request: Request,
    expected: PodAdditions,
}

/// Every policy with hooks, on this pod.
fn cases(pod: &Json) -> Vec<Case> {
    let annotation_cases = annotation_policies().into_iter();
    let mut cases: Vec<Case> = annotation_cases
        .map(|(policy, annotations, expected)| Case {
            policy,
            request: Request::create(annotated(pod.clone(), annotations)),
            expected,
        })
        .collect();
    let mut by_namespace = Request::create(pod.clone());
    by_namespace.namespace = annotated(by_namespace.namespace, &[IMAGE, ("standing", "audit")]);
    cases.push(Case {
        policy: "standing-hooks-by-namespace",
        request: by_namespace,
        expected: PodAdditions {
            volumes: vec![image_volume("wasm-namespace-hooks", IMAGE.1)],
            mounts: strings(&[
                "wasm-namespace-hooks /etc/virt-launcher/hooks/namespace-audit audit",
            ]),
            counted: 0,
        },
    });
    let mut by_label = Request::create(pod.clone());
    by_label.object["metadata"]["labels"]["tier"] = "gpu".into();
    cases.push(Case {
        policy: "standing-hooks-by-label",
        request: by_label,
        expected: PodAdditions {
            volumes: vec![image_volume(
                "wasm-gpu-hooks",
                "registry.example/gpu-hooks:1",
            )],
            mounts: strings(&[
                "wasm-gpu-hooks /etc/virt-launcher/hooks/gpu-vfio vfio",
                "wasm-gpu-hooks /etc/virt-launcher/hooks/gpu-numa numa",
            ]),
            counted: 0,
        },
    });
    cases
}

/// The index of the container `compute`.
fn compute_at(pod: &Json) -> usize {
    let mut containers = pod["spec"]["containers"].as_array().unwrap().iter();
    containers
        .position(|container| container["name"] == "compute")
        .unwrap()
}

/// Sets the command line of `compute`. An empty list is absent.
fn set_command_line(pod: &mut Json, command: &[String], args: &[String]) {
    let at = compute_at(pod);
    let container = pod["spec"]["containers"][at].as_object_mut().unwrap();
    for (list, words) in [("command", command), ("args", args)] {
        container.remove(list);
        if !words.is_empty() {
            container.insert(list.to_owned(), json!(words));
        }
    }
}

/// The words of a refusal that name its reason.
const REASONS: [&str; 2] = [
    "do not know this version of KubeVirt",
    "--hook-sidecars with a number, once in command and args",
];

fn assert_refused(answer: Result<Json, String>, case: &str) {
    let error = answer.map(|_| ()).expect_err(case);
    assert!(
        REASONS.iter().any(|reason| error.contains(reason)),
        "{case}: {error}"
    );
}

#[test]
fn flags_are_found_in_command_in_args_and_in_both() {
    for name in ["plain", "main/sidecar-one", "main/plain+cross-arch"] {
        let words = words(compute(&pod(name)));
        for case in cases(&pod(name)) {
            let server = server_with_policies(&[case.policy]);
            for in_command in 0..=words.len() {
                let place = format!("{}: {name}: {in_command} in command", case.policy);
                let mut request = case.request.clone();
                let (command, args) = words.split_at(in_command);
                set_command_line(&mut request.object, command, args);
                let answer = server.admit(request.clone());
                if in_command == 0 {
                    // Then the image chooses the program.
                    assert_refused(answer, &place);
                    continue;
                }
                let stored = answer.unwrap_or_else(|error| panic!("{place}: {error}"));
                assert_eq!(
                    additions(&request.object, &stored),
                    case.expected,
                    "{place}"
                );
            }
        }
    }
}

/// A word may be lost or doubled in any place: what is admitted has its hooks, and counts them.
#[test]
fn no_lost_or_doubled_word_admits_a_launcher_without_its_hooks() {
    let mut refused = 0;
    for name in ["sidecar-one", "main/plain+cross-arch"] {
        let in_command = compute(&pod(name))["command"].as_array().unwrap().len();
        let words = words(compute(&pod(name)));
        for case in cases(&pod(name)) {
            let server = server_with_policies(&[case.policy]);
            for at in 0..words.len() {
                for copies in [0, 2] {
                    let copies = vec![words[at].clone(); copies];
                    let mut changed = words.clone();
                    let in_command = match at < in_command {
                        true => in_command + copies.len() - 1,
                        false => in_command,
                    };
                    changed.splice(at..=at, copies);
                    let mut request = case.request.clone();
                    let (command, args) = changed.split_at(in_command);
                    set_command_line(&mut request.object, command, args);
                    let place = format!("{}: {name}: {changed:?}", case.policy);
                    match server.admit(request.clone()) {
                        Ok(stored) => assert_eq!(
                            additions(&request.object, &stored),
                            case.expected,
                            "{place}"
                        ),
                        Err(error) => {
                            assert_refused(Err(error), &place);
                            refused += 1;
                        }
                    }
                }
            }
        }
    }
    // Of each pod and policy: a lost program, a lost or doubled flag, a lost number.
    assert!(refused >= 2 * 6 * 4, "{refused}");
}

/// The names of rows, and how they change the flags of a launcher whose first word is the program.
type Row = (&'static str, fn(&mut Vec<String>));

fn flag(words: &[String]) -> usize {
    let flag = words.iter().position(|word| word == "--hook-sidecars");
    flag.unwrap()
}

fn set_value(words: &mut [String], value: &str) {
    let value_at = flag(words) + 1;
    words[value_at] = value.to_owned();
}

const UNKNOWN_COMMAND_LINES: &[Row] = &[
    ("no flags", |words| words.truncate(1)),
    ("no --hook-sidecars", |words| {
        let at = flag(words);
        words.drain(at..at + 2);
    }),
    ("another name of the flag", |words| {
        let at = flag(words);
        words[at] = "--hooks".to_owned();
    }),
    ("the number after =", |words| {
        let at = flag(words);
        words[at] = "--hook-sidecars=0".to_owned();
        words.remove(at + 1);
    }),
    ("the flag with one dash", |words| {
        let at = flag(words);
        words[at] = "-hook-sidecars".to_owned();
    }),
    ("a second flag", |words| {
        words.extend(strings(&["--hook-sidecars", "0"]));
    }),
    ("a second flag with =", |words| {
        words.push("--hook-sidecars=0".to_owned());
    }),
    ("the flag at the end", |words| {
        let at = flag(words);
        words.drain(at..at + 2);
        words.push("--hook-sidecars".to_owned());
    }),
    ("no number", |words| set_value(words, "")),
    ("a word", |words| set_value(words, "many")),
    ("a negative number", |words| set_value(words, "-1")),
    ("a fraction", |words| set_value(words, "1.5")),
    ("a hexadecimal number", |words| set_value(words, "0x1")),
    ("a blank before the number", |words| set_value(words, " 1")),
    ("a large number", |words| {
        set_value(words, "9223372036854775807");
    }),
    ("the launcher without its monitor", |words| {
        words[0] = "/usr/bin/virt-launcher".to_owned();
    }),
    ("a program whose name begins like the monitor's", |words| {
        words[0] = "/usr/bin/virt-launcher-monitor-2".to_owned();
    }),
    ("another program", |words| words[0] = "/init".to_owned()),
    ("a shell", |words| words[0] = "/bin/bash".to_owned()),
    ("a shell that runs the monitor", |words| {
        words.insert(0, "/bin/bash".to_owned());
    }),
    ("a shell's script that runs the monitor", |words| {
        *words = vec![
            "/bin/sh".to_owned(),
            "-c".to_owned(),
            format!("exec {}", words.join(" ")),
        ];
    }),
];

/// The launcher's command line as version 1.9 and as version 1.10 of KubeVirt write it.
fn as_v1_9_and_v1_10(words: &[String]) -> [(&[String], &[String]); 2] {
    [(words, &[]), words.split_at(1)]
}

/// Pods without hooks, which the guard alone refuses, and with the hooks of each policy.
#[test]
fn a_launcher_whose_command_line_is_unknown_is_refused() {
    let pod = pod("sidecar-one");
    let without_hooks = (Vec::new(), Request::create(pod.clone()));
    let with_hooks = cases(&pod).into_iter();
    let with_hooks = with_hooks.map(|case| (vec![case.policy], case.request));
    for (policies, request) in [without_hooks].into_iter().chain(with_hooks) {
        let server = server_with_policies(&policies);
        for (row, change) in UNKNOWN_COMMAND_LINES {
            let mut words = words(compute(&pod));
            change(&mut words);
            for (command, args) in as_v1_9_and_v1_10(&words) {
                let mut request = request.clone();
                set_command_line(&mut request.object, command, args);
                let row = format!("{policies:?}: {row}: {command:?} {args:?}");
                assert_refused(server.admit(request), &row);
            }
        }
    }
}

#[test]
fn a_launcher_without_a_command_line_is_refused() {
    for mut case in cases(&pod("plain")) {
        set_command_line(&mut case.request.object, &[], &[]);
        let server = server_with_policies(&[case.policy]);
        assert_refused(server.admit(case.request), case.policy);
    }
}

#[test]
fn the_monitor_may_be_in_another_directory() {
    for program in [
        "/opt/kubevirt/bin/virt-launcher-monitor",
        "virt-launcher-monitor",
    ] {
        for case in cases(&pod("main/plain")) {
            let mut request = case.request.clone();
            let args = words(compute(&request.object)).split_off(1);
            set_command_line(&mut request.object, &[program.to_owned()], &args);
            let server = server_with_policies(&[case.policy]);
            let stored = server.admit(request.clone()).unwrap();
            assert_eq!(
                additions(&request.object, &stored),
                case.expected,
                "{program}: {}",
                case.policy
            );
        }
    }
}

/// The policies add hooks to the container `compute` only.
#[test]
fn a_launcher_in_another_container_is_refused() {
    let launcher = compute(&pod("main/plain")).clone();
    let renamed = |name: &str| {
        let mut launcher = launcher.clone();
        launcher["name"] = name.into();
        launcher
    };
    let mut temporary = launcher.clone();
    for list in ["command", "args"] {
        temporary[list] = compute(&pod("main/novm"))[list].clone();
    }
    let mut other = renamed("other");
    other["command"] = json!(["/usr/bin/sleep"]);
    other["args"] = json!(["60"]);
    let no_compute = "the pod has no container compute";
    let other_container = "a container other than compute runs virt-launcher-monitor";
    let rows = [
        ("renamed", vec![renamed("launcher")], vec![], no_compute),
        (
            "beside compute",
            vec![launcher.clone(), renamed("launcher")],
            vec![],
            other_container,
        ),
        (
            "beside a shell",
            vec![temporary.clone(), renamed("launcher")],
            vec![],
            other_container,
        ),
        (
            "before compute",
            vec![launcher.clone()],
            vec![renamed("launcher")],
            other_container,
        ),
        (
            "before a shell",
            vec![temporary.clone()],
            vec![renamed("launcher")],
            other_container,
        ),
        (
            "as compute before",
            vec![other],
            vec![launcher.clone()],
            no_compute,
        ),
    ];
    let pod = pod("main/plain");
    let guard_alone = (Vec::new(), Request::create(pod.clone()));
    let with_policies = cases(&pod).into_iter();
    let with_policies = with_policies.map(|case| (vec![case.policy], case.request));
    for (policies, request) in [guard_alone].into_iter().chain(with_policies) {
        let server = server_with_policies(&policies);
        for (row, containers, before, reason) in &rows {
            let mut request = request.clone();
            let spec = &mut request.object["spec"];
            for (list, added) in [("containers", containers), ("initContainers", before)] {
                let list = spec[list].as_array_mut().unwrap();
                list.retain(|container| container["name"] != "compute");
                list.extend(added.iter().cloned());
            }
            let refusal = server.admit(request).unwrap_err();
            // With a policy, its own patch may fail before the guard sees the pod.
            let is_named = refusal.contains(reason);
            assert!(is_named || !policies.is_empty(), "{row}: {refusal}");
        }
    }
}

/// The temporary pods that bind volume claims, and a container that names the launcher in another way than to run it.
#[test]
fn pods_without_a_launcher_are_left_alone() {
    for name in ["novm", "main/novm-emulation"] {
        let words = words(compute(&pod(name)));
        for case in cases(&pod(name)) {
            let server = server_with_policies(&[case.policy]);
            for in_command in 1..=words.len() {
                for shell in ["/bin/bash", "/usr/bin/bash", "/bin/sh"] {
                    let mut request = case.request.clone();
                    let mut words = words.clone();
                    shell.clone_into(&mut words[0]);
                    let (command, args) = words.split_at(in_command);
                    set_command_line(&mut request.object, command, args);
                    let stored = server.admit(request.clone()).unwrap();
                    assert_eq!(stored, request.object, "{}: {name}", case.policy);
                }
            }
        }
    }
    let mut virtiofs = pod("main/virtiofs-pvc");
    let containers = virtiofs["spec"]["containers"].as_array_mut().unwrap();
    let share = containers
        .iter_mut()
        .find(|container| container["name"] != "compute")
        .unwrap();
    share["args"] = json!(["--shared-dir=/virt-launcher-monitor"]);
    let stored = server_with_policies(&[]).admit(Request::create(virtiofs.clone()));
    assert_eq!(stored.unwrap(), virtiofs);
}
