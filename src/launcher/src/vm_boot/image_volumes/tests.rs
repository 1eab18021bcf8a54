//! Tests of links to image volumes, and of paths in untrusted images.

use domain::kubevirt_version::KubeVirtVersion;
use proptest::prelude::*;

use super::*;

struct Pod {
    directory: tempfile::TempDir,
    volumes: ImageVolumes,
}

fn pod() -> Pod {
    let directory = tempfile::tempdir().unwrap();
    let below = |name: &str| directory.path().join(name);
    let volumes = ImageVolumes {
        disks: below("images"),
        kernel_boot: below("boot"),
        links: below("links"),
        finds_disk_at_root: false,
    };
    Pod { directory, volumes }
}

impl Pod {
    fn file(&self, path: &str) {
        let path = self.directory.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
    }

    fn linked(&self, link: &str) -> PathBuf {
        let link = fs::read_link(self.volumes.links.join(link)).unwrap();
        link.strip_prefix(self.directory.path()).unwrap().to_owned()
    }
}

fn vmi(path: &str) -> Vmi {
    let text = format!(
        r#"{{"metadata":{{"name":"vm"}},"spec":{{"domain":{{"firmware":{{"kernelBoot":{{"container":
            {{"image":"i","kernelPath":"/boot/vmlinuz","initrdPath":"/boot/initrd"}}}}}}}},"volumes":[
            {{"name":"other"}},{{"name":"root","containerDisk":{{"image":"i","path":"{path}"}}}}]}}}}"#
    );
    Vmi::from_json(text.as_bytes()).unwrap()
}

#[test]
fn images_are_found_by_path_or_in_the_disk_directory() {
    for (path, file) in [("/a/b.img", "a/b.img"), ("", "disk/d.qcow2")] {
        let pod = pod();
        pod.file(&format!("images/disk_1/{file}"));
        pod.file("boot/boot/vmlinuz");
        pod.file("boot/boot/initrd");
        for _ in 0..2 {
            pod.volumes.link(&vmi(path)).unwrap();
        }
        assert_eq!(
            pod.linked("disk_1.img"),
            Path::new("images/disk_1").join(file)
        );
        assert_eq!(
            pod.linked("kernel-boot/vmlinuz"),
            Path::new("boot/boot/vmlinuz")
        );
        assert_eq!(
            pod.linked("kernel-boot/initrd"),
            Path::new("boot/boot/initrd")
        );
    }
}

#[test]
fn an_artifacts_disk_is_found_alone_at_the_root_from_v1_10_on() {
    // The files of the image, and the one that is the disk: in v1.9, then in v1.10.
    let cases: [(&[&str], Option<&str>, Option<&str>); 5] = [
        (&["d.qcow2"], None, Some("d.qcow2")),
        (&["disk/d.img"], Some("disk/d.img"), Some("disk/d.img")),
        (
            &["disk/d.img", "README"],
            Some("disk/d.img"),
            Some("disk/d.img"),
        ),
        (&["d.qcow2", "e.qcow2"], None, None),
        (&["data/d.img"], None, None),
    ];
    for (files, in_v1_9, in_v1_10) in cases {
        for (version, expected) in [
            (KubeVirtVersion::V1_9, in_v1_9),
            (KubeVirtVersion::V1_10, in_v1_10),
        ] {
            let mut pod = pod();
            pod.volumes.finds_disk_at_root = Behaviour::of(version).finds_disk_at_image_root;
            for file in files {
                pod.file(&format!("images/disk_1/{file}"));
            }
            let found = pod
                .volumes
                .link(&vmi(""))
                .err()
                .map(|error| error.to_string());
            match expected {
                Some(file) => assert_eq!(
                    pod.linked("disk_1.img"),
                    Path::new("images/disk_1").join(file),
                    "{files:?} in {version}: {found:?}"
                ),
                None => assert!(
                    found
                        .as_ref()
                        .is_some_and(|error| error.contains("one file alone")),
                    "{files:?} in {version}: {found:?}"
                ),
            }
        }
    }
}

#[test]
fn a_link_alone_at_the_root_stays_inside_the_image() {
    let mut pod = pod();
    pod.volumes.finds_disk_at_root = true;
    let image = pod.volumes.disks.join("disk_1");
    fs::create_dir_all(&image).unwrap();
    symlink("/etc/passwd", image.join("disk.img")).unwrap();
    let error_text = pod.volumes.link(&vmi("")).unwrap_err().to_string();
    assert!(
        error_text.starts_with("volume root: disk.img in the image volume /"),
        "{error_text}"
    );
}

#[test]
fn symlinks_are_resolved_inside_the_image() {
    let pod = pod();
    pod.file("images/disk_1/data/real.img");
    pod.file("boot/boot/vmlinuz");
    pod.file("boot/boot/initrd");
    let image = pod.volumes.disks.join("disk_1");
    symlink("/data/../../../../data/real.img", image.join("link.img")).unwrap();
    pod.volumes.link(&vmi("link.img")).unwrap();
    assert_eq!(
        pod.linked("disk_1.img"),
        Path::new("images/disk_1/data/real.img")
    );
    symlink("/etc/passwd", image.join("passwd")).unwrap();
    let error_text = pod.volumes.link(&vmi("passwd")).unwrap_err().to_string();
    assert!(
        error_text.starts_with("volume root: passwd in the image volume /"),
        "{error_text}"
    );
    symlink("round", image.join("round")).unwrap();
    let error_text = pod.volumes.link(&vmi("round")).unwrap_err().to_string();
    assert!(error_text.ends_with("too many links"), "{error_text}");
}

#[test]
fn error_contains_the_path_of_a_missing_file() {
    let pod = pod();
    let error_text = pod.volumes.link(&vmi("")).unwrap_err().to_string();
    assert!(error_text.contains("images/disk_1: "), "{error_text}");
    // As with KubeVirt v1.9, a file outside of /disk is not found without its path, and neither are two files there.
    for files in [&["one"][..], &["disk/two", "disk/three"]] {
        for file in files {
            pod.file(&format!("images/disk_1/{file}"));
        }
        let error_text = pod.volumes.link(&vmi("")).unwrap_err().to_string();
        assert!(
            error_text.contains("name the disk's file in containerDisk.path"),
            "{error_text}"
        );
    }
    let error_text = pod.volumes.link(&vmi("one")).unwrap_err().to_string();
    assert!(
        error_text.starts_with("kernel boot: /boot/vmlinuz in the image volume /"),
        "{error_text}"
    );
}

proptest! {
    #[test]
    fn resolved_path_is_inside_the_tree(parts in proptest::collection::vec("\\.\\.|\\.|a|up|top", 0..8)) {
        let pod = pod();
        pod.file("tree/a/a/a");
        let tree = pod.directory.path().join("tree");
        symlink("../../..", tree.join("up")).unwrap();
        symlink("/a", tree.join("a/top")).unwrap();
        // `..` and the link out of the tree end at its root.
        let result = resolve(&tree, Path::new(&parts.join("/")));
        if !parts.iter().any(|part| part == "a" || part == "top") {
            prop_assert!(result.is_ok(), "{parts:?}: {result:?}");
        }
        if let Ok(found) = result {
            prop_assert!(found.starts_with(&tree) && !found.is_symlink(), "{}", found.display());
            prop_assert!(fs::canonicalize(&found).unwrap() == fs::canonicalize(&tree).unwrap().join(found.strip_prefix(&tree).unwrap()));
        }
    }
}
