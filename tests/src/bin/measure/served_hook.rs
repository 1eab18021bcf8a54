//! Measures `virt-hook serve` with one hook: its idle memory, and calls as a stock launcher makes them.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use proto::hooks::v1alpha3::OnDefineDomainParams;
use proto::hooks::v1alpha3::callbacks_client::CallbacksClient;
use tests::grpc_over_unix_socket::dial;
use tests::{binaries, build_and_install_hooks as hooks};

use crate::process_memory::{self, ProcessMemory};

/// The number of calls per median.
const CALLS: usize = 1000;
/// Calls before the first that counts.
const WARM_UP_CALLS: usize = 50;
/// The time after which the sidecar is idle.
const SETTLE_TIME: Duration = Duration::from_secs(2);
/// The size of the domain XML in bytes, as in the reference measurements.
const DOMAIN_SIZE: usize = 15_000;
const INPUT_ELEMENT: &str = "\t\t<input ";
const VMI: &str = r#"{"metadata":{"name":"vm","namespace":"ns","annotations":
    {"smbios.vm.kubevirt.io/baseBoardManufacturer":"Radical Edward"}},"spec":{"domain":{}}}"#;

/// The measurements of one sidecar.
pub(crate) struct ServedHook {
    /// Milliseconds from exec to the socket, including the compilation of the module.
    pub(crate) ready: f64,
    pub(crate) idle: ProcessMemory,
    /// The memory after the calls.
    pub(crate) after_calls: ProcessMemory,
    /// Median of OnDefineDomain in microseconds, including the connection.
    pub(crate) p50: f64,
    /// The 99th percentile of the same.
    pub(crate) p99: f64,
    /// The peak memory of the compile child, in MB.
    pub(crate) compile_peak: f64,
}

/// A process of `virt-hook serve`, killed when dropped.
struct ServeProcess(Child);

impl Drop for ServeProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) async fn measure() -> Result<ServedHook> {
    let temp_dir = tempfile::tempdir()?;
    let (log, begin) = (temp_dir.path().join("log"), Instant::now());
    let socket = temp_dir.path().join("measured.sock");
    let mut process = ServeProcess(
        Command::new(binaries::binary("virt-hook")?)
            .args(["serve", "--socket", "measured.sock", "--hooks-dir"])
            .arg(temp_dir.path())
            .arg("--module")
            .arg(hooks::example("smbios-hook")?)
            .stderr(fs::File::create(&log)?)
            .stdin(Stdio::null())
            .spawn()?,
    );
    while !socket.exists() {
        let ended = process.0.try_wait()?;
        ensure!(
            ended.is_none() && begin.elapsed() < Duration::from_secs(60),
            "virt-hook serve does not get ready; its log:\n{}",
            fs::read_to_string(&log)?
        );
        tokio::time::sleep(Duration::from_micros(500)).await;
    }
    let ready = begin.elapsed().as_secs_f64() * 1e3;
    tokio::time::sleep(SETTLE_TIME).await;
    let idle = process_memory::read(process.0.id())?;
    let times = calls(&socket).await?;
    Ok(ServedHook {
        ready,
        idle,
        after_calls: process_memory::read(process.0.id())?,
        p50: microseconds(&times, 50),
        p99: microseconds(&times, 99),
        compile_peak: compile_peak_memory(&fs::read_to_string(&log)?)?,
    })
}

/// The sorted durations of the calls. Each call has a new connection, as a stock launcher's.
async fn calls(socket: &Path) -> Result<Vec<Duration>> {
    let domain = domain()?;
    let mut times = Vec::with_capacity(CALLS);
    for number in 0..WARM_UP_CALLS + CALLS {
        let params = OnDefineDomainParams {
            domain_xml: domain.clone().into_bytes(),
            vmi: VMI.into(),
        };
        let begin = Instant::now();
        let mut client = CallbacksClient::new(dial(socket).await?);
        let answer = client.on_define_domain(params).await?.into_inner();
        let duration = begin.elapsed();
        ensure!(
            answer.domain_xml.len() > domain.len(),
            "the hook changed nothing"
        );
        if number >= WARM_UP_CALLS {
            times.push(duration);
        }
    }
    times.sort_unstable();
    Ok(times)
}

/// The domain XML of the corpus's Windows VM, with so many disks added that it has [`DOMAIN_SIZE`].
fn domain() -> Result<String> {
    let corpus = binaries::workspace().join("tests/corpus/vmi-to-domain-xml/typical-windows.xml");
    let mut xml = fs::read_to_string(&corpus).with_context(|| corpus.display().to_string())?;
    for number in 0.. {
        if xml.len() >= DOMAIN_SIZE {
            break;
        }
        let position = xml.find(INPUT_ELEMENT).context("no input in it")?;
        let disk = format!(
            "\t\t<disk device=\"disk\" type=\"block\">\n\t\t\t<source dev=\"/dev/data{number}\"></source>\n\
             \t\t\t<target bus=\"virtio\" dev=\"vd{number}\"></target>\n\
             \t\t\t<driver cache=\"none\" name=\"qemu\" type=\"raw\" io=\"native\"></driver>\n\t\t</disk>\n"
        );
        xml.insert_str(position, &disk);
    }
    Ok(xml)
}

/// The peak memory of the compile child from the sidecar's log, in MB.
fn compile_peak_memory(log: &str) -> Result<f64> {
    let word = log
        .split_whitespace()
        .find_map(|word| word.strip_prefix("peak_memory="));
    let bytes: f64 = word.context("no peak_memory= in the log")?.parse()?;
    Ok(bytes / 1e6)
}

fn microseconds(sorted: &[Duration], percentile: usize) -> f64 {
    let index = (sorted.len().saturating_sub(1) * percentile).div_ceil(100);
    sorted
        .get(index)
        .map_or(f64::NAN, |time| time.as_secs_f64() * 1e6)
}
