use std::collections::BTreeMap;

use vidmm::contract::*;
use vidmm::{PageSize, SegmentId};

/// A driver for a GPU with 64 MiB of memory, whose commands are 24 bytes each.
#[derive(Default)]
struct ExampleDriver {
    last_handle: u64,
    roots: BTreeMap<KmdContextHandle, RootPageTable>,
}

impl ExampleDriver {
    fn handle(&mut self) -> u64 {
        self.last_handle += 1;
        self.last_handle
    }
}

const LOCAL_MEMORY: SegmentId = SegmentId(1);
const STATUS_NOT_SUPPORTED: i32 = 0xC000_00BB_u32 as i32;

impl Kmd for ExampleDriver {
    fn query_adapter_info(&mut self) -> AdapterInfo {
        let segment = |flags, base_address, size| SegmentDescriptor { flags, base_address, size, commit_limit: size };
        let level = |page_table_index_bit_count| PageTableLevelDesc {
            page_table_index_bit_count,
            page_table_segment_id: LOCAL_MEMORY,
            paging_process_page_table_segment_id: LOCAL_MEMORY,
            page_table_size_in_bytes: 8 << page_table_index_bit_count,
            page_table_alignment_in_bytes: 0,
        };
        AdapterInfo {
            wddm_version: WddmVersion::WDDM2_0,
            addressing_model: AddressingModel::GpuMmu,
            memory_management_caps: VidMmCaps::empty(),
            linked_adapter_segments: vec![],
            aperture_segment_commit_limit: u64::MAX,
            scheduling_log_buffer_size: None,
            segments: vec![
                segment(SegmentFlags::APPLICATION_TARGET | SegmentFlags::LOCAL_BUDGET_GROUP, 0, 64 << 20),
                segment(SegmentFlags::APERTURE | SegmentFlags::NON_LOCAL_BUDGET_GROUP, 64 << 20, 64 << 20),
            ],
            engines: vec![EngineDesc { kind: EngineKind::Paging }, EngineDesc { kind: EngineKind::Render3d }],
            gpu_mmu: GpuMmuCaps {
                flags: GpuMmuFlags::empty(),
                page_table_update_mode: PageTableUpdateMode::GpuPhysical,
                legacy_behaviors: LegacyBehaviors::empty(),
                virtual_address_bit_count: 39,
                leaf_page_table_size_for_64k_pages_in_bytes: 0,
            },
            page_table_levels: vec![level(9), level(9), level(9)],
            write_behind: false,
            paging_buffer: PagingBufferDesc { size: 4096, private_data_size: 0 },
            patching: PatchingCaps::default(),
        }
    }

    fn create_process(&mut self, _system_process: bool) -> Result<KmdProcessHandle, KmdError> {
        Ok(KmdProcessHandle(self.handle()))
    }

    fn destroy_process(&mut self, _process: KmdProcessHandle) {}

    fn create_context(&mut self, _: KmdProcessHandle, _node: u32, _system: bool) -> Result<KmdContextHandle, KmdError> {
        Ok(KmdContextHandle(self.handle()))
    }

    fn destroy_context(&mut self, context: KmdContextHandle) {
        self.roots.remove(&context);
    }

    // The private data is whatever the user-mode half of the same driver passes: here the size, and nothing else.
    fn create_allocation(&mut self, private_driver_data: &[u8]) -> Result<AllocationInfo, CreateAllocationError> {
        let size = private_driver_data.try_into().map_err(|_| CreateAllocationError::InvalidParameter)?;
        let (allocation, size) = (KmdAllocationHandle(self.handle()), u64::from_le_bytes(size));
        Ok(AllocationInfo::new(allocation, size, SegmentSet::of(LOCAL_MEMORY)))
    }

    fn destroy_allocation(&mut self, _allocation: KmdAllocationHandle) {}

    fn set_root_page_table(&mut self, context: KmdContextHandle, root: RootPageTable) {
        self.roots.insert(context, root);
    }

    fn build_paging_buffer(&mut self, build: &mut BuildPagingBuffer<'_>) -> BuildStatus {
        let commands: Vec<[u64; 3]> = match build.operation {
            PagingOperation::VirtualTransfer(op) => {
                vec![[1, op.source_virtual_address.0, op.destination_virtual_address.0], [2, op.transfer_size_in_bytes, 0]]
            }
            PagingOperation::VirtualFill(op) => {
                vec![[3, op.destination_virtual_address.0, op.fill_size_in_bytes], [4, op.fill_pattern.into(), 0]]
            }
            PagingOperation::UpdatePageTable(op) => (0..op.page_table_entries.num_page_table_entries.into())
                .map(|i| {
                    let first = op.page_table_entries.first;
                    let repeat = op.flags.contains(UpdatePageTableFlags::REPEAT);
                    let pte = if repeat { first } else { first.advanced(i, PageSize::Kib4) };
                    let entry = op.page_table_address.offset + (u64::from(op.start_index) + i) * 8;
                    let segment = u64::from(pte.address.segment.0);
                    [5, entry, pte.address.offset | segment << 5 | pte.flags.bits()]
                })
                .collect(),
            PagingOperation::FlushTlb(op) => {
                vec![[6, op.start_virtual_address.0, op.end_virtual_address.0]]
            }
            // Operations of other models, and those that this driver never asks for.
            _ => return BuildStatus::Other(STATUS_NOT_SUPPORTED),
        };
        let to_bytes = |words: [u64; 3]| {
            let mut bytes = [0; 24];
            bytes.chunks_exact_mut(8).zip(words).for_each(|(bytes, word)| bytes.copy_from_slice(&word.to_le_bytes()));
            bytes
        };
        // `multipass_offset` is the driver's own: here it counts the commands that earlier buffers took.
        build.write(commands.into_iter().map(to_bytes))
    }

    // The engine runs contexts of many processes: before each buffer the driver sets the page tables to use.
    fn submit_command(&mut self, submit: &SubmitCommand, preamble: &mut Vec<u8>) {
        let root = &self.roots[&submit.context];
        for word in [7u64, root.address.offset, root.num_entries.into()] {
            preamble.extend(word.to_le_bytes());
        }
    }
}
