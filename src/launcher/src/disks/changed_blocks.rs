//! Images of the bitmaps of changed blocks: qcow2 files whose data are another file's, which stays as
//! it is.

use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::path::Path;
use std::time::Duration;

use super::image::{Image, Making};
use super::prepare::failed;
use super::{DiskError, DiskTools, qemu_img};
use crate::blocking;
use crate::placing::Part;

/// KubeVirt's: large clusters keep the tables small.
const OPTIONS: &str = "data_file_raw=on,cluster_size=256k";
const MODE: u32 = 0o640;
const LOOK: Duration = Duration::from_secs(10);
/// Tables for every part of the disk are written, which takes a while for a large one.
const PATIENCE: Duration = Duration::from_secs(30);

/// Makes the image at `path` for the data at `data`, unless it is there.
///
/// qemu-img empties the data file that an image is made with. So it gets one to empty, and the image
/// is told of the right one afterwards.
pub(super) async fn create(
    volume: &str,
    path: &str,
    data: &Path,
    tools: &DiskTools,
) -> Result<(), DiskError> {
    let Some(image) = Image::new(path, MODE).begin(tools).await? else {
        return Ok(());
    };
    let tools = &DiskTools {
        cpu_limit: PATIENCE,
        deadline: PATIENCE,
        ..tools.clone()
    };
    let size = size(volume, data).await?.to_string();
    let stand_in = Part::of(Path::new(&format!("{path}.data")));
    let options = format!("{OPTIONS},data_file={}", escaped(stand_in.path()));
    let options = ["-o".into(), options.into()];
    image.make(&options, &[size.into()], tools).await?;
    point_to(data, &image, tools).await?;
    drop(stand_in);
    image.settle().await
}

async fn point_to(data: &Path, image: &Making, tools: &DiskTools) -> Result<(), DiskError> {
    let part = image.part();
    let option = format!("data_file={}", escaped(data));
    let arguments = ["-q", "-f", "qcow2", "-o", &option].map(std::ffi::OsStr::new);
    let arguments = arguments.into_iter().chain([part.as_os_str()]);
    qemu_img::run(tools, "amend", part, &arguments.collect::<Vec<_>>()).await?;
    Ok(())
}

/// What the guest sees of the data: a file's length, a device's size.
async fn size(volume: &str, data: &Path) -> Result<u64, DiskError> {
    let path = data.to_owned();
    let look = move || File::open(path).and_then(|mut file| file.seek(SeekFrom::End(0)));
    let size = blocking::call("asking for an image's size", LOOK, look).await?;
    size.map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => DiskError::NoData {
            volume: volume.to_owned(),
            path: data.to_owned(),
        },
        _ => failed("asking for the size of", data, source),
    })
}

/// A comma ends an option unless it is doubled.
fn escaped(path: &Path) -> String {
    path.to_string_lossy().replace(',', ",,")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::fs;
    use std::process::Command;

    use super::*;

    #[tokio::test]
    async fn the_data_stay_where_they_are_and_are_seen_through_the_image() {
        let directory = tempfile::tempdir().unwrap();
        let text = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
        let (data, image) = (text("disk,img"), text("cbt/vol.qcow2"));
        let mut content = vec![7; 3 << 20];
        content.extend([9; 512]);
        fs::write(&data, &content).unwrap();
        let tools = DiskTools::new(2_097_152_000);
        fs::create_dir(directory.path().join("cbt")).unwrap();
        for left in ["cbt/vol.qcow2.1-0.part", "cbt/vol.qcow2.data.1-1.part"] {
            fs::write(text(left), "cut short").unwrap();
        }
        for _ in 0..2 {
            create("vol", &image, Path::new(&data), &tools)
                .await
                .unwrap();
        }
        assert_eq!(fs::read(&data).unwrap(), content);
        assert_eq!(
            fs::read_dir(directory.path().join("cbt")).unwrap().count(),
            1
        );
        let seen = text("seen");
        let convert = ["convert", "-f", "qcow2", "-O", "raw", &image, &seen];
        let converted = Command::new("qemu-img").args(convert).status().unwrap();
        assert!(converted.success());
        assert_eq!(fs::read(seen).unwrap(), content);
        let info = Command::new("qemu-img")
            .args(["info", &image])
            .output()
            .unwrap();
        let info = String::from_utf8(info.stdout).unwrap();
        for fact in ["cluster_size: 262144", "data file raw: true", "disk,img"] {
            assert!(info.contains(fact), "{fact} in {info}");
        }
    }

    #[tokio::test]
    async fn data_that_are_missing_are_named() {
        let directory = tempfile::tempdir().unwrap();
        let image = directory.path().join("vol.qcow2");
        let tools = DiskTools::new(2_097_152_000);
        let error = create(
            "vol",
            image.to_str().unwrap(),
            Path::new("/none/disk.img"),
            &tools,
        )
        .await
        .unwrap_err()
        .to_string();
        assert!(
            error.starts_with("volume vol: no image at /none/disk.img"),
            "{error}"
        );
    }
}
