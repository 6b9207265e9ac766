//! Adapters of any shape: each is refused with the rules that it breaks, or it works.

use vidmm::contract::*;
use vidmm::{
    AllocationId, AllocationListDesc, CreateDeviceDesc, DeviceResidency, MakeResidentFlags, MapGpuVirtualAddress,
    RenderDesc, SegmentId, SubmitDesc,
};

use super::{Target, none};
use crate::choices::Choices;
use crate::rig::{Driver, Host, Rig, adapter, allocation};

pub const TARGET: Target = Target { name: "caps", run, seeds: none, words: &[], max_len: 96 };

fn run(data: &[u8]) {
    let choices = Choices::new(data);
    let mut info = adapter(&choices);
    for _ in 0..choices.below(5) {
        change(&mut info, &choices);
    }
    let mut driver = Driver::new(info, choices.clone());
    driver.paging_va_mib = choices.one_in(2).then(|| choices.edge32());
    let mut host = Host::new(choices.clone());
    if choices.one_in(4) {
        host.total = choices.edge();
    }
    match Rig::start(driver, host, choices) {
        Ok(mut rig) => works(&mut rig),
        Err(refused) => {
            assert!(!refused.broken_rules.is_empty(), "a refusal without a rule");
            let text = refused.to_string();
            assert!(refused.broken_rules.iter().all(|rule| text.contains(&rule.to_string())), "{text}");
        }
    }
}

/// Changes one property to a value that need not be possible.
fn change(info: &mut AdapterInfo, choices: &Choices<'_>) {
    match choices.below(14) {
        0 => {
            info.wddm_version = WddmVersion(choices.pick(&[0, 0x5022, 0x5023, 0xFFFF, 0x11007, u32::MAX]));
            info.memory_management_caps = VidMmCaps::from_bits_retain(choices.any());
        }
        1 => {
            use AddressingModel::*;
            info.addressing_model = choices.pick(&[GpuMmu, GpuVaIoMmu, GpuVaIoMmuGlobal, Physical]);
        }
        2 | 3 => change_segments(&mut info.segments, choices),
        4 => {
            info.linked_adapter_segments.push(info.segments.clone());
            change_segments(&mut info.linked_adapter_segments[0], choices);
        }
        5 => info.aperture_segment_commit_limit = choices.edge(),
        6 => info.scheduling_log_buffer_size = choices.one_in(2).then(|| choices.edge()),
        7 => {
            let kind = choices.pick(&[EngineKind::Paging, EngineKind::Render3d, EngineKind::Copy]);
            info.engines.resize(choices.pick(&[0, 1, 2, 4, 64, 65]), EngineDesc { kind });
        }
        8 => {
            info.gpu_mmu.flags = GpuMmuFlags::from_bits_retain(choices.any());
            info.gpu_mmu.leaf_page_table_size_for_64k_pages_in_bytes = choices.edge32();
        }
        9 => info.gpu_mmu.virtual_address_bit_count = choices.pick(&[0, 12, 28, 31, 32, 40, 48, 57, 63, 64, u32::MAX]),
        10 | 11 => change_levels(info, choices),
        12 => info.paging_buffer = PagingBufferDesc { size: choices.edge32(), private_data_size: choices.edge32() },
        _ => {
            let bank_range_table = (0..choices.below(4)).map(|_| choices.edge()).collect();
            let (slots, preemption_aware) = (choices.edge32(), choices.one_in(2));
            info.patching = PatchingCaps {
                max_allocation_list_slot_id: slots,
                preemption_aware,
                no_dma_patching: preemption_aware,
                bank_range_table,
            };
        }
    }
}

fn change_segments(segments: &mut Vec<SegmentDescriptor>, choices: &Choices<'_>) {
    let Some(at) = (!segments.is_empty()).then(|| choices.index(segments.len())) else { return };
    let segment = &mut segments[at];
    match choices.below(6) {
        0 => segment.flags = SegmentFlags::from_bits_retain(choices.any()),
        1 => segment.base_address = choices.edge(),
        2 => segment.size = choices.edge(),
        // The segment is as large as it says, and as it may be.
        3 => {
            segment.size = choices.edge() / 65_536 * 65_536;
            (segment.commit_limit, segment.base_address) = (segment.size, 0);
        }
        4 => segment.commit_limit = choices.edge(),
        _ => segments.resize(choices.pick(&[0, 1, 2, 3, 32, 33]), segments[at]),
    }
}

fn change_levels(info: &mut AdapterInfo, choices: &Choices<'_>) {
    let AdapterInfo { page_table_levels: levels, gpu_mmu, .. } = info;
    let Some(at) = (!levels.is_empty()).then(|| choices.index(levels.len())) else { return };
    match choices.below(5) {
        0 => levels.resize(choices.pick(&[0, 1, 2, 3, 5, 6, 7]), levels[at]),
        1 => levels[at].page_table_index_bit_count = choices.pick(&[0, 1, 2, 9, 16, 31, 32, 63, 64, u32::MAX]),
        2 => levels[at].page_table_size_in_bytes = choices.edge32(),
        3 => {
            let segment = SegmentId(choices.pick(&[0, 1, 2, 3, 32, 33, 255]));
            levels[at].page_table_segment_id = segment;
            if choices.one_in(2) {
                levels[at].paging_process_page_table_segment_id = segment;
            }
        }
        // Levels as GPUs have them, which fit together.
        _ => {
            let bits = choices.pick(&[1, 4, 9, 12, 16]);
            for level in &mut *levels {
                level.page_table_index_bit_count = bits;
                level.page_table_size_in_bytes = (8 << bits).max(4096);
            }
            gpu_mmu.virtual_address_bit_count = 12 + bits * levels.len() as u32;
        }
    }
}

/// A command buffer that uses an allocation.
fn reference(allocation: AllocationId) -> RenderDesc {
    RenderDesc {
        command: vec![0; 16],
        allocations: vec![AllocationListDesc { allocation: Some(allocation), write_operation: true }],
        patch_locations: vec![PatchLocation::default()],
        ..RenderDesc::default()
    }
}

/// The calls that every adapter that has started can take.
fn works(rig: &mut Rig<'_>) {
    rig.check();
    rig.run_all();
    for engine in 0..rig.engines.len().min(4) as u32 {
        let Rig { vidmm, driver, host, .. } = rig;
        let Ok(process) = vidmm.create_process(driver, host) else { break };
        let residency = (engine % 2 == 0).then_some(DeviceResidency::DeviceList);
        let device = vidmm.create_device(CreateDeviceDesc { process, residency }).expect("the process is there");
        let context = vidmm.create_context(driver, device, engine).ok();
        // A device with reference lists has no paging queue.
        let queue = vidmm.create_paging_queue(device, 0).ok();
        for segments in 1..4 {
            driver.next_allocation = Some(allocation(1 + u64::from(engine) * 5, segments));
            let Ok(allocation) = vidmm.create_allocation(driver, host, device, &[0]) else { continue };
            if let Some(queue) = queue {
                _ = vidmm.map_gpu_virtual_address(host, queue, &MapGpuVirtualAddress::whole(allocation));
                _ = vidmm.make_resident(queue, &[allocation], MakeResidentFlags::empty());
            }
            if let Some(context) = context {
                _ = vidmm.submit(context, SubmitDesc::default());
                _ = vidmm.render(driver, context, reference(allocation));
            }
        }
        rig.check();
        rig.run_all();
        rig.check();
    }
    assert_eq!(rig.violation, None, "a driver that is right breaks a rule");
    assert!(rig.engines.iter().all(std::collections::VecDeque::is_empty), "I32: packets wait for each other");
}
