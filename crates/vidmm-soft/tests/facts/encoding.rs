//! Commands survive being bytes, and bytes that are no commands are errors.

use proptest::prelude::*;
use vidmm::contract::{KmdAllocationHandle, KmdContextHandle, KmdProcessHandle, MemoryTransferDirection};
use vidmm::{GpuVirtualAddress, PageSize, PhysicalAddress, SegmentId};
use vidmm_runtime::{Content, KernelCommand, PageRange, Surface};
use vidmm_soft::HardwareEntry;
use vidmm_soft::encoding::*;

fn address() -> impl Strategy<Value = GpuVirtualAddress> {
    any::<u64>().prop_map(GpuVirtualAddress)
}

fn process() -> impl Strategy<Value = KmdProcessHandle> {
    any::<u64>().prop_map(KmdProcessHandle)
}

fn allocation() -> impl Strategy<Value = KmdAllocationHandle> {
    any::<u64>().prop_map(KmdAllocationHandle)
}

fn physical() -> impl Strategy<Value = PhysicalAddress> {
    (any::<u8>(), any::<u64>()).prop_map(|(segment, offset)| PhysicalAddress { segment: SegmentId(segment), offset })
}

fn ranges() -> impl Strategy<Value = Vec<PageRange>> {
    let range = (address(), any::<u64>(), prop::option::of(surface()));
    let range =
        range.prop_map(|(virtual_address, num_pages, surface)| PageRange { virtual_address, num_pages, surface });
    prop::collection::vec(range, 0..5)
}

fn surface() -> impl Strategy<Value = Surface> {
    (any::<u32>(), any::<u64>()).prop_map(|(number, first_page)| Surface { number, first_page })
}

fn segment() -> impl Strategy<Value = SegmentId> {
    any::<u8>().prop_map(SegmentId)
}

fn map_aperture() -> impl Strategy<Value = Command> {
    (segment(), any::<u64>(), any::<u64>(), physical(), any::<bool>(), allocation()).prop_map(
        |(segment, first_page, num_pages, system_memory, cache_coherent, allocation)| {
            let map = MapAperture { segment, first_page, num_pages, system_memory, cache_coherent, allocation };
            Command::MapAperture(map)
        },
    )
}

fn unmap_aperture() -> impl Strategy<Value = Command> {
    (segment(), any::<u64>(), any::<u64>(), physical(), allocation()).prop_map(
        |(segment, first_page, num_pages, dummy_page, allocation)| {
            Command::UnmapAperture(UnmapAperture { segment, first_page, num_pages, dummy_page, allocation })
        },
    )
}

fn decompress() -> impl Strategy<Value = Command> {
    (address(), any::<u64>(), surface(), allocation(), any::<u64>()).prop_map(
        |(virtual_address, bytes, surface, allocation, allocation_offset)| {
            Command::Decompress(Decompress { virtual_address, bytes, surface, allocation, allocation_offset })
        },
    )
}

fn foreign() -> impl Strategy<Value = Command> {
    (any::<u32>(), address(), any::<u64>(), allocation(), any::<u64>()).prop_map(
        |(token, virtual_address, bytes, allocation, allocation_offset)| {
            Command::Foreign(Foreign { token, virtual_address, bytes, allocation, allocation_offset })
        },
    )
}

fn direction() -> impl Strategy<Value = MemoryTransferDirection> {
    use MemoryTransferDirection::*;
    prop_oneof![Just(LocalToSystem), Just(SystemToLocal), Just(LocalToLocal)]
}

fn table() -> impl Strategy<Value = TableAddress> {
    prop_oneof![physical().prop_map(TableAddress::Physical), address().prop_map(TableAddress::Virtual)]
}

fn write_ptes() -> impl Strategy<Value = Command> {
    let numbers = (0u32..65536, any::<u32>(), any::<u32>(), any::<u64>());
    let entries = (any::<u64>(), prop::option::of(any::<u64>()), any::<bool>());
    (process(), address(), table(), numbers, entries).prop_map(
        |(process, virtual_address, table, (level, start_index, count, stride), (first, second, large))| {
            Command::WritePtes(WritePtes {
                process,
                virtual_address,
                level,
                page_size: if large { PageSize::Kib64 } else { PageSize::Kib4 },
                table,
                start_index,
                count,
                first: HardwareEntry(first),
                first_64kb: second.map(HardwareEntry),
                stride,
            })
        },
    )
}

fn kernel() -> impl Strategy<Value = Command> {
    (any::<u64>(), any::<u64>(), any::<bool>(), ranges(), ranges()).prop_map(
        |(kernel, nanoseconds, ramp, inputs, outputs)| {
            let content = if ramp { Content::Ramp } else { Content::Uniform };
            Command::Kernel(KernelCommand { kernel, nanoseconds, content, inputs, outputs })
        },
    )
}

fn command() -> impl Strategy<Value = Command> {
    prop_oneof![
        (process(), physical(), any::<u32>()).prop_map(|(process, root, num_entries)| Command::SetRootPageTable(
            SetRootPageTable { process, root, num_entries }
        )),
        (address(), address(), any::<u64>(), direction(), allocation(), any::<u64>()).prop_map(
            |(source, destination, bytes, direction, allocation, allocation_offset)| Command::Transfer(Transfer {
                source,
                destination,
                bytes,
                direction,
                allocation,
                allocation_offset
            })
        ),
        (address(), any::<u64>(), any::<u32>(), allocation(), any::<u64>()).prop_map(
            |(destination, bytes, pattern, allocation, allocation_offset)| Command::Fill(Fill {
                destination,
                bytes,
                pattern,
                allocation,
                allocation_offset
            })
        ),
        write_ptes(),
        (prop::option::of(process()), address(), address())
            .prop_map(|(process, start, end)| Command::FlushTlb(FlushRange { process, start, end })),
        kernel(),
        process().prop_map(Command::SetAddressSpace),
        map_aperture(),
        unmap_aperture(),
        decompress(),
        foreign(),
        any::<u64>().prop_map(Command::SetState),
        (process(), any::<u64>(), any::<bool>()).prop_map(|(process, context, is_system)| Command::SetContext(
            SetContext { process, context: KmdContextHandle(context), is_system }
        )),
        (allocation(), prop::option::of(address()))
            .prop_map(|(allocation, address)| Command::NotifyResidency(NotifyResidency { allocation, address })),
        (allocation(), address())
            .prop_map(|(allocation, address)| Command::UseAllocation(UseAllocation { allocation, address })),
    ]
}

proptest! {
    #[test]
    fn encoded_commands_are_decoded(commands in prop::collection::vec(command(), 0..8)) {
        let mut bytes = Vec::new();
        for command in &commands {
            encode_to_vec(command, &mut bytes);
        }
        let decoded: Result<Vec<_>, _> = Decoder::new(&bytes).collect();
        prop_assert_eq!(decoded, Ok(commands));
    }

    #[test]
    fn a_command_is_written_whole_or_not_at_all(command in command()) {
        let bytes = encoded_bytes(&command);
        let mut short = vec![0xAA; bytes - 1];
        prop_assert_eq!(encode(&command, &mut short), None);
        prop_assert!(short.iter().all(|&byte| byte == 0xAA));
        let mut long = vec![0xAA; bytes + 3];
        prop_assert_eq!(encode(&command, &mut long), Some(bytes));
        prop_assert_eq!(&long[bytes..], &[0xAA; 3]);
    }

    #[test]
    fn cut_off_bytes_are_an_error(command in command(), cut in any::<prop::sample::Index>()) {
        let mut bytes = Vec::new();
        encode_to_vec(&command, &mut bytes);
        bytes.truncate(1 + cut.index(bytes.len() - 1));
        let decoded: Vec<_> = Decoder::new(&bytes).collect();
        prop_assert_eq!(decoded, [Err(DecodeError::Truncated { offset: 0 })]);
    }

    #[test]
    fn the_addresses_of_a_kernel_are_where_they_are_said_to_be(inputs in ranges(), outputs in ranges(), new in any::<u64>()) {
        let (content, nanoseconds) = (Content::Uniform, 1);
        let mut kernel = KernelCommand { kernel: 5, nanoseconds, content, inputs, outputs };
        for index in 0..kernel.inputs.len() + kernel.outputs.len() {
            let mut bytes = Vec::new();
            encode_to_vec(&Command::Kernel(kernel.clone()), &mut bytes);
            bytes[kernel_address_offset(index)..][..8].copy_from_slice(&new.to_le_bytes());
            let range = kernel.inputs.iter_mut().chain(&mut kernel.outputs).nth(index).unwrap();
            range.virtual_address = GpuVirtualAddress(new);
            prop_assert_eq!(Decoder::new(&bytes).next(), Some(Ok(Command::Kernel(kernel.clone()))));
        }
    }

    #[test]
    fn any_bytes_decode_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(Decoder::new(&bytes).count() <= bytes.len());
    }

    #[test]
    fn commands_with_wrong_bytes_decode_without_panic(
        commands in prop::collection::vec(command(), 1..4),
        wrong in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut bytes = Vec::new();
        commands.iter().for_each(|command| encode_to_vec(command, &mut bytes));
        for (index, byte) in wrong {
            let index = index.index(bytes.len());
            bytes[index] = byte;
        }
        prop_assert!(Decoder::new(&bytes).count() <= bytes.len());
    }
}

#[test]
fn an_unknown_opcode_and_fields_of_no_meaning_are_told_apart() {
    let bytes = |opcode: u16| [opcode.to_le_bytes(), [0, 0], [8, 0], [0, 0]].concat();
    let decode = |opcode| Decoder::new(&bytes(opcode)).next();
    assert_eq!(decode(99), Some(Err(DecodeError::UnknownOpcode { offset: 0, opcode: 99 })));
    assert_eq!(decode(OPCODE_FILL), Some(Err(DecodeError::Malformed { offset: 0, opcode: 3 })));
}
