//! Pins vCPUs, IO threads and the emulator thread to dedicated host CPUs.

use kubevirt_api::vmi::Cpu;

use super::cpu_pool::{CpuPool, NodeCrossing};
use crate::convert::conversion_inputs::Context;
use crate::convert::error::ConvertError;
use crate::convert::storage::io_threads::IoThreadCounts;
use crate::libvirt_spec::{
    CpuTopology, CpuTune, DomainSpec, EmulatorPin, FeatureState, IoThreadPin, VcpuPin,
};

const EVEN_PARITY_ANNOTATION: &str = "alpha.kubevirt.io/EmulatorThreadCompleteToEvenParity";

pub(crate) fn add(context: &Context<'_>, spec: &mut DomainSpec) -> Result<(), ConvertError> {
    let Some(cpu) = context.vmi.spec.domain.cpu.as_ref() else {
        return Ok(());
    };
    if !cpu.dedicated_cpu_placement {
        return Ok(());
    }
    let mut pool = new_pool(context, cpu, spec);
    let mut tune = CpuTune {
        vcpu_pin: vcpu_pins(&mut pool)?,
        ..CpuTune::default()
    };
    let supplemental = IoThreadCounts::from_vmi(context.vmi)
        .pool
        .unwrap_or_default();
    for id in 1..=supplemental {
        let thread = pool
            .take_thread()
            .ok_or_else(|| no_cpu_error("the iothread: "))?;
        tune.io_thread_pin
            .push(io_thread_pin(id, thread.to_string()));
    }
    if cpu.isolate_emulator_thread {
        let pinned = requested_vcpus(cpu) + u64::from(supplemental);
        let cpuset = emulator_cpus(context, &mut pool, pinned)?;
        tune.emulator_pin = Some(EmulatorPin { cpuset });
    }
    if IoThreadCounts::are_requested(context.vmi) && supplemental == 0 {
        tune.io_thread_pin = io_thread_pins(context, cpu, spec, tune.emulator_pin.as_ref())?;
    }
    spec.cpu_tune = Some(tune);
    set_performance_features(context, cpu, spec);
    Ok(())
}

/// Tells the guest that its CPUs are dedicated, so that it may spin instead of yielding. A realtime guest gets no
/// performance counters.
fn set_performance_features(context: &Context<'_>, cpu: &Cpu, spec: &mut DomainSpec) {
    let features = spec.features.get_or_insert_default();
    // KubeVirt sets the hint only if the VMI names its architecture.
    if context.architecture.has_dedicated_cpu_hint() && !context.vmi.spec.architecture.is_empty() {
        features.kvm.get_or_insert_default().hint_dedicated =
            Some(FeatureState { state: "on".into() });
    }
    if cpu.realtime.is_some() {
        features.pmu = Some(FeatureState {
            state: "off".into(),
        });
    }
}

/// A pool of the pod's CPUs, for the sockets that are present at boot.
fn new_pool(context: &Context<'_>, cpu: &Cpu, spec: &DomainSpec) -> CpuPool {
    let mut topology = spec.cpu.topology.clone().unwrap_or_default();
    if cpu.max_sockets != 0 {
        topology.sockets = topology.sockets.min(context.topology.sockets);
    }
    let CpuTopology {
        sockets,
        cores,
        threads,
    } = topology;
    let crossing = match is_numa_passed_through(cpu) {
        true => NodeCrossing::Forbidden,
        false => NodeCrossing::Allowed,
    };
    CpuPool::new(
        u64::from(sockets) * u64::from(cores),
        threads,
        crossing,
        context.options.topology.as_ref(),
        &context.host.cpuset,
    )
}

pub(crate) fn is_numa_passed_through(cpu: &Cpu) -> bool {
    cpu.numa
        .as_ref()
        .is_some_and(|numa| numa.guest_mapping_passthrough.is_some())
}

fn vcpu_pins(pool: &mut CpuPool) -> Result<Vec<VcpuPin>, ConvertError> {
    let threads = pool
        .take_cores()
        .map_err(|error| ConvertError::invalid(error.to_string()))?;
    let pins = threads.into_iter().zip(0..);
    Ok(pins
        .map(|(thread, vcpu)| VcpuPin {
            vcpu,
            cpuset: thread.to_string(),
        })
        .collect())
}

fn no_cpu_error(what: &str) -> ConvertError {
    ConvertError::invalid(format!(
        "no CPU allocated for {what}no remaining unassigned threads"
    ))
}

/// The CPU of the emulator thread, or two CPUs if the VMI requires an even number of CPUs in total.
fn emulator_cpus(
    context: &Context<'_>,
    pool: &mut CpuPool,
    pinned: u64,
) -> Result<String, ConvertError> {
    let first = pool
        .take_thread()
        .ok_or_else(|| no_cpu_error("the emulation thread: "))?;
    if context.vmi.annotation(EVEN_PARITY_ANNOTATION).is_none() || !pinned.is_multiple_of(2) {
        return Ok(first.to_string());
    }
    let second = pool.take_thread().ok_or_else(|| {
        ConvertError::invalid(
            "no second CPU allocated for the emulation thread: no remaining unassigned threads",
        )
    })?;
    Ok(format!("{first},{second}"))
}

fn io_thread_pin(io_thread: u32, cpuset: String) -> IoThreadPin {
    IoThreadPin { io_thread, cpuset }
}

/// The product of the VMI's sockets, cores and threads. KubeVirt also skips missing counts here.
fn requested_vcpus(cpu: &Cpu) -> u64 {
    let counts = [cpu.cores, cpu.sockets, cpu.threads];
    let given = counts.into_iter().filter(|count| *count != 0);
    given
        .map(u64::from)
        .reduce(u64::saturating_mul)
        .unwrap_or_default()
}

/// Pins the IO thread to the emulator thread's CPU, or distributes the IO threads over the guest's CPUs.
fn io_thread_pins(
    context: &Context<'_>,
    cpu: &Cpu,
    spec: &DomainSpec,
    emulator: Option<&EmulatorPin>,
) -> Result<Vec<IoThreadPin>, ConvertError> {
    let threads = spec
        .io_threads
        .as_ref()
        .ok_or_else(|| ConvertError::invalid("domain is missing IOThreads"))?
        .io_threads;
    if let Some(emulator) = emulator {
        return Ok(vec![io_thread_pin(1, emulator.cpuset.clone())]);
    }
    let vcpus = match requested_vcpus(cpu) {
        0 => u64::from(context.vcpus).max(1),
        vcpus => vcpus,
    };
    let pins = (1..=threads).map(|thread| {
        let cpuset = cpus_of_thread(&context.host.cpuset, thread, threads, vcpus)
            .ok_or_else(|| no_cpu_error("the iothread: "))?;
        Ok(io_thread_pin(
            u32::try_from(thread).unwrap_or(u32::MAX),
            cpuset,
        ))
    });
    pins.collect()
}

/// The CPUs of an IO thread, which is counted from 1: one CPU, or an even share of all CPUs.
fn cpus_of_thread(cpuset: &[u32], thread: u64, threads: u64, vcpus: u64) -> Option<String> {
    let index = |number: u64| usize::try_from(number).ok();
    if threads >= vcpus {
        let cpu = cpuset.get(index(thread % vcpus)?)?;
        return Some(cpu.to_string());
    }
    let (share, remainder) = (vcpus / threads, vcpus % threads);
    let start = (thread - 1) * share + (thread - 1).min(remainder);
    let length = share + u64::from(thread <= remainder);
    let cpus = cpuset.get(index(start)?..index(start + length)?)?;
    let cpus: Vec<_> = cpus.iter().map(u32::to_string).collect();
    Some(cpus.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_are_split_evenly_among_io_threads() {
        let cpus: Vec<u32> = (0..8).collect();
        let shares = |threads, vcpus| {
            let cpus = |thread| cpus_of_thread(&cpus, thread, threads, vcpus);
            (1..=threads).map(cpus).collect::<Option<Vec<_>>>()
        };
        assert_eq!(shares(3, 8).unwrap(), ["0,1,2", "3,4,5", "6,7"]);
        assert_eq!(shares(1, 2).unwrap(), ["0,1"]);
        assert_eq!(shares(3, 2).unwrap(), ["1", "0", "1"]);
        assert_eq!(shares(2, 2).unwrap(), ["1", "0"]);
        assert_eq!(shares(3, 9), None);
    }

    #[test]
    fn vcpus_are_the_product_of_the_given_counts() {
        let cpu = |cores, sockets, threads| Cpu {
            cores,
            sockets,
            threads,
            ..Cpu::default()
        };
        assert_eq!(requested_vcpus(&cpu(0, 0, 0)), 0);
        assert_eq!(requested_vcpus(&cpu(2, 0, 3)), 6);
    }
}
