//! The limits of cgroup v1 and v2 are read, and a hook's limits stay below them.
use hook_host::wasm::{CompileError, CompileLimit};

use super::*;

fn root_with_files(files: &[(&str, &str)]) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for (file, text) in files {
        let path = root.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{text}\n")).unwrap();
    }
    root
}

#[test]
fn limits_of_cgroup_v1_and_v2_are_read() {
    let version_2 = root_with_files(&[
        ("proc/self/cgroup", "0::/a/b"),
        ("sys/fs/cgroup/a/b/memory.max", "max"),
        ("sys/fs/cgroup/a/memory.max", "64000000"),
        ("sys/fs/cgroup/a/b/cpu.max", "20000 100000"),
        ("sys/fs/cgroup/a/cpu.max", "max 100000"),
    ]);
    assert_eq!(CgroupLimits::read_below(version_2.path()), SMALLEST_SIDECAR);
    // In a container with a cgroup namespace, the path is `/` and the mount is the group.
    let with_namespace = root_with_files(&[
        ("proc/self/cgroup", "0::/"),
        ("sys/fs/cgroup/memory.max", "64000000"),
        ("sys/fs/cgroup/cpu.max", "20000 100000"),
    ]);
    assert_eq!(
        CgroupLimits::read_below(with_namespace.path()),
        SMALLEST_SIDECAR
    );
    // In a container without a cgroup namespace, the path is the node's and does not exist below the mount.
    let without_namespace = root_with_files(&[
        (
            "proc/self/cgroup",
            "0::/kubepods.slice/cri-containerd-1.scope",
        ),
        ("sys/fs/cgroup/memory.max", "64000000"),
        ("sys/fs/cgroup/cpu.max", "20000 100000"),
    ]);
    assert_eq!(
        CgroupLimits::read_below(without_namespace.path()),
        SMALLEST_SIDECAR
    );
    for (memory, cpu) in [
        ("max", "max 100000"),
        ("", ""),
        ("x", "20000"),
        ("-1", "0 0"),
    ] {
        let invalid_values = root_with_files(&[
            ("proc/self/cgroup", "0::/"),
            ("sys/fs/cgroup/memory.max", memory),
            ("sys/fs/cgroup/cpu.max", cpu),
        ]);
        assert_eq!(
            CgroupLimits::read_below(invalid_values.path()),
            CgroupLimits::default(),
            "{memory} {cpu}"
        );
    }
    // With version 1, the mount is the group, and the path is the node's.
    let version_1 = root_with_files(&[
        (
            "proc/self/cgroup",
            "5:cpu,cpuacct:/kubepods/x\n4:memory:/kubepods/x\n0::/",
        ),
        ("sys/fs/cgroup/memory/memory.limit_in_bytes", "64000000"),
        ("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "20000"),
        ("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000"),
    ]);
    assert_eq!(CgroupLimits::read_below(version_1.path()), SMALLEST_SIDECAR);
    let unlimited = root_with_files(&[
        ("proc/self/cgroup", "4:memory:/\n5:cpu:/"),
        (
            "sys/fs/cgroup/memory/memory.limit_in_bytes",
            "9223372036854771712",
        ),
        ("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1"),
        ("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000"),
    ]);
    assert_eq!(
        CgroupLimits::read_below(unlimited.path()),
        CgroupLimits::default()
    );
}

#[test]
fn hook_limits_are_lower_than_the_limits_of_the_container() {
    assert_eq!(CgroupLimits::default().limits(), Limits::default());
    let limits = SMALLEST_SIDECAR.limits();
    assert_eq!(limits.compile_memory as u64, 64_000_000 - RESERVED_MEMORY);
    assert_eq!(limits.memory, limits.compile_memory);
    assert_eq!(limits.compile_threads, 1);
    assert_eq!(limits.compile_deadline, MAX_COMPILE_DEADLINE);
    let large = CgroupLimits {
        memory: Some(8 << 30),
        processors: Some(2.0),
    };
    assert_eq!(large.limits(), Limits::default());
}

#[test]
fn only_errors_about_compile_limits_mention_the_container() {
    let too_much = LoadError::Compile {
        path: "x".into(),
        size: 1,
        source: CompileError::LimitExceeded(CompileLimit::Memory("1 MiB of memory".to_owned())),
    };
    let text = SMALLEST_SIDECAR.explain(too_much.into()).to_string();
    assert!(
        text.contains("61 MiB of memory and 0.20 processors")
            && text.contains("supportContainerResources"),
        "{text}"
    );
    let other = anyhow!("compiling it takes more than it should");
    assert_eq!(
        SMALLEST_SIDECAR.explain(other).to_string(),
        "compiling it takes more than it should"
    );
}
