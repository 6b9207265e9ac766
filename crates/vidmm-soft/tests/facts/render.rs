//! The driver translates command buffers of users, and patches addresses into them.

use crate::common::patching::*;
use crate::common::*;
use proptest::prelude::*;
use vidmm::PhysicalAddress;
use vidmm::contract::*;
use vidmm_runtime::{CommandStep, Content, Umd, UserCommands};
use vidmm_soft::encoding::{Command, Decoder, FlushRange, MapAperture, SetContext};
use vidmm_soft::*;

const PAGES: u64 = 16;
const A: u32 = 1;
const B: u32 = 2;

/// A machine with two allocations of 16 pages.
fn rig() -> (PatchRig, KmdAllocationHandle, KmdAllocationHandle) {
    let mut rig = PatchRig::new(config());
    let (a, b) = (rig.allocation(PAGES * PAGE, None), rig.allocation(PAGES * PAGE, None));
    (rig, a, b)
}

/// The list with the null element and both allocations, which may be written, at these places.
fn list(
    a: KmdAllocationHandle,
    b: KmdAllocationHandle,
    at: [Option<PhysicalAddress>; 2],
) -> [AllocationListElement; 3] {
    [NULL, element(a, true, at[0]), element(b, true, at[1])]
}

/// Kernel 1 writes pages of A; after a split point kernel 2 reads them and writes B.
fn two_portions() -> UserCommands {
    CommandBuffer::new()
        .bind(0, A)
        .kernel(&bound_kernel(1, &[], &[(0, 2, 3)]))
        .split_point()
        .bind(0, A)
        .bind(1, B)
        .kernel(&bound_kernel(2, &[(0, 2, 1), (0, 4, 1)], &[(1, 0, 1)]))
        .finish()
}

/// The addresses of the kernels in `bytes`.
fn addresses(bytes: &[u8]) -> Vec<u64> {
    let kernels = Decoder::new(bytes).filter_map(|command| match command.unwrap() {
        Command::Kernel(kernel) => Some(kernel),
        _ => None,
    });
    let ranges = kernels.flat_map(|kernel| kernel.inputs.into_iter().chain(kernel.outputs));
    ranges.map(|range| range.virtual_address.0).collect()
}

/// Where the commands of `bytes` begin, and where the last ends.
fn starts(bytes: &[u8]) -> Vec<usize> {
    let mut decoder = Decoder::new(bytes);
    let mut starts = vec![0];
    while let Some(command) = decoder.next() {
        command.unwrap();
        starts.push(decoder.offset());
    }
    starts
}

#[test]
fn commands_are_copied_and_every_reference_is_told() {
    let (mut rig, a, b) = rig();
    let user = two_portions();
    let rendered = render(&mut rig.rig.kmd, &user, &list(a, b, [None, None]));
    assert_eq!(rendered.dma, user.commands);
    assert_eq!(rendered.patch_locations, user.patch_locations);
    assert_eq!(addresses(&rendered.dma), [UNPATCHED_ADDRESS.0; 4]);
}

#[test]
fn known_addresses_are_written_at_once() {
    let (mut rig, a, b) = rig();
    let elements = list(a, b, [Some(local(64 * PAGE)), None]);
    let rendered = render(&mut rig.rig.kmd, &two_portions(), &elements);
    assert_eq!(addresses(&rendered.dma), [66 * PAGE, 66 * PAGE, 68 * PAGE, UNPATCHED_ADDRESS.0]);
    assert_eq!(rendered.patch_locations.len(), 4, "all references are told, known or not");
    let elements = list(a, b, [Some(aperture(8 * PAGE)), Some(local(0))]);
    let rendered = render(&mut rig.rig.kmd, &two_portions(), &elements);
    let in_aperture = LOCAL_BYTES + 8 * PAGE;
    assert_eq!(addresses(&rendered.dma), [in_aperture + 2 * PAGE, in_aperture + 2 * PAGE, in_aperture + 4 * PAGE, 0]);
}

#[test]
fn a_full_dma_buffer_ends_with_a_whole_portion_and_a_new_dma_buffer_goes_on() {
    let (mut rig, a, b) = rig();
    let (user, elements) = (two_portions(), list(a, b, [Some(local(0)), None]));
    let whole = render(&mut rig.rig.kmd, &user, &elements);
    let (split, end) = (starts(&user.commands)[2], user.commands.len());
    let mut multipass_offset = 0;
    let mut pass = |room: usize| {
        let (mut buffer, mut told) = (vec![0; room], Vec::new());
        let mut render = Render {
            context: rig.user.context,
            command: &user.commands,
            dma_buffer: &mut buffer,
            allocation_list: &elements,
            patch_location_list_in: &user.patch_locations,
            patch_location_list_out: &mut told,
            dma_bytes_written: 0,
            dma_buffer_private_data: &mut Vec::new(),
            multipass_offset: &mut multipass_offset,
        };
        let status = rig.rig.kmd.render(&mut render);
        let written = render.dma_bytes_written;
        (status, buffer[..written].to_vec(), told, multipass_offset as usize)
    };
    let full = Err(RenderStatus::InsufficientDmaBuffer);
    assert_eq!(pass(0), (full, vec![], vec![], 0));
    assert_eq!(pass(split - 1), (full, vec![], vec![], 0));
    assert_eq!(pass(end - 1), (full, whole.dma[..split].to_vec(), whole.patch_locations[..1].to_vec(), split));
    assert_eq!(pass(end - split - 1), (full, vec![], vec![], split));
    // Offsets count from the start of the new DMA buffer (PAT-12).
    let moved = whole.patch_locations[1..].iter().map(|location| PatchLocation {
        patch_offset: location.patch_offset - split as u32,
        split_offset: location.split_offset - split as u32,
        ..*location
    });
    assert_eq!(pass(end - split), (Ok(()), whole.dma[split..].to_vec(), moved.collect(), end));
}

#[test]
fn a_portion_is_patched_with_the_addresses_that_it_runs_with() {
    let (mut rig, a, b) = rig();
    let mut rendered = render(&mut rig.rig.kmd, &two_portions(), &list(a, b, [None, None]));
    let split = rendered.patch_locations[1].split_offset as usize;
    let end = rendered.dma.len();
    let first = patch(&mut rig.rig.kmd, &mut rendered, &list(a, b, [Some(local(32 * PAGE)), None]), 0, split);
    assert_eq!(addresses(&first), [34 * PAGE]);
    rig.rig.run_well(rig.user, first);
    // A is in the aperture when the second portion runs, in local memory it is when that is patched once more.
    let kmd = &mut rig.rig.kmd;
    let second = patch(kmd, &mut rendered, &list(a, b, [Some(aperture(0)), Some(local(0))]), split, end);
    assert_eq!(addresses(&second), [LOCAL_BYTES + 2 * PAGE, LOCAL_BYTES + 4 * PAGE, 0]);
    let again = patch(kmd, &mut rendered, &list(a, b, [Some(local(32 * PAGE)), Some(local(PAGE))]), split, end);
    assert_eq!(addresses(&again), [34 * PAGE, 36 * PAGE, PAGE]);
    rig.rig.run_well(rig.user, again);
    let written = |page| uniform_digest(KernelState::new(1).seed(0, page));
    assert_eq!(rig.digests(local(34 * PAGE), 3), [0, 1, 2].map(written));
    assert_eq!(rig.digests(local(PAGE), 1), [expected(2, &[written(0), written(2)])]);
}

#[test]
fn slots_used_behind_a_split_point_are_bound_there_again() {
    let user = CommandBuffer::new()
        .bind(0, A)
        .bind(1, B)
        .kernel(&bound_kernel(1, &[], &[(0, 0, 1), (1, 0, 1)]))
        .split_point()
        .kernel(&bound_kernel(2, &[], &[(1, 0, 1)]))
        .finish();
    let (first, split) = (0, user.patch_locations[2].split_offset);
    assert!(split > first);
    let bound: Vec<_> = user.patch_locations.iter().map(|l| (l.slot_id, l.allocation_index, l.split_offset)).collect();
    assert_eq!(bound, [(0, A, first), (1, B, first), (1, B, split)]);
}

#[test]
fn an_address_that_is_not_known_when_a_portion_runs_faults() {
    let (mut rig, a, b) = rig();
    let mut rendered = render(&mut rig.rig.kmd, &two_portions(), &list(a, b, [Some(local(0)), Some(local(0))]));
    let end = rendered.dma.len();
    let portion = patch(&mut rig.rig.kmd, &mut rendered, &list(a, b, [Some(local(0)), None]), 0, end);
    let events = rig.rig.run(rig.user, portion);
    assert_eq!(faults(&events), [(UNPATCHED_ADDRESS.0, true)]);
}

#[test]
fn unbinding_writes_nothing() {
    let (mut rig, a, b) = rig();
    let user = CommandBuffer::new()
        .bind(0, A)
        .kernel(&bound_kernel(1, &[], &[(0, 0, 1)]))
        .split_point()
        .unbind(0)
        .bind(1, B)
        .kernel(&bound_kernel(2, &[], &[(1, 0, 1)]))
        .finish();
    let unbinding = user.patch_locations[1];
    assert_eq!((unbinding.allocation_index, unbinding.slot_id), (0, 0));
    let elements = list(a, b, [Some(local(PAGE)), Some(local(2 * PAGE))]);
    let mut rendered = render(&mut rig.rig.kmd, &user, &elements);
    assert!(rendered.patch_locations.contains(&unbinding));
    let (split, end) = (unbinding.split_offset as usize, rendered.dma.len());
    let before = rendered.clone();
    patch(&mut rig.rig.kmd, &mut rendered, &elements, split, end);
    assert_eq!(rendered, before, "the addresses were known already");
}

#[test]
fn the_user_mode_driver_lays_out_what_it_is_told_step_by_step() {
    let steps = [
        CommandStep::Bind { slot_id: 0, allocation_index: A },
        CommandStep::Kernel(bound_kernel(1, &[], &[(0, 2, 3)])),
        CommandStep::SplitPoint,
        CommandStep::Bind { slot_id: 0, allocation_index: A },
        CommandStep::Bind { slot_id: 1, allocation_index: B },
        CommandStep::Kernel(bound_kernel(2, &[(0, 2, 1), (0, 4, 1)], &[(1, 0, 1)])),
    ];
    assert_eq!(SoftUmd.encode_command_buffer(&steps), two_portions());
    let unbound = [CommandStep::Bind { slot_id: 3, allocation_index: A }, CommandStep::Unbind { slot_id: 3 }];
    assert_eq!(SoftUmd.encode_command_buffer(&unbound), CommandBuffer::new().bind(3, A).unbind(3).finish());
}

#[test]
fn state_is_programmed_after_every_split_point_and_split_points_are_not_repeated() {
    let user = CommandBuffer::new()
        .split_point()
        .bind(0, A)
        .kernel(&bound_kernel(1, &[(0, 0, 1)], &[]))
        .split_point()
        .split_point()
        .bind(0, A)
        .kernel(&bound_kernel(2, &[(0, 0, 1)], &[]))
        .finish();
    let starts = starts(&user.commands);
    let commands: Vec<_> = Decoder::new(&user.commands).map(Result::unwrap).collect();
    assert!(matches!(
        commands[..],
        [Command::SetState(0), Command::Kernel(_), Command::SetState(1), Command::Kernel(_)]
    ));
    let splits: Vec<_> = user.patch_locations.iter().map(|location| location.split_offset as usize).collect();
    assert_eq!(splits, [0, starts[2]]);
}

#[test]
#[should_panic = "a slot that holds nothing"]
fn a_kernel_needs_its_slot_bound() {
    CommandBuffer::new().bind(0, A).unbind(0).kernel(&bound_kernel(1, &[(0, 0, 1)], &[]));
}

#[test]
#[should_panic = "patch locations reach 4 GiB"]
fn a_patch_location_has_no_room_for_large_offsets() {
    CommandBuffer::new().bind(0, A).kernel(&bound_kernel(1, &[(0, 1 << 20, 1)], &[]));
}

/// The driver's answer to commands that use both allocations.
fn answer(user: &UserCommands) -> Result<(), RenderStatus> {
    let (mut rig, a, b) = rig();
    render_in(&mut rig.rig.kmd, user, &list(a, b, [None, None]), 4096).map(|_| ())
}

#[test]
fn only_kernels_and_state_are_for_users() {
    let process = KmdProcessHandle(1);
    let flush = FlushRange { process: None, start: UNPATCHED_ADDRESS, end: UNPATCHED_ADDRESS };
    let map = MapAperture {
        segment: vidmm::SegmentId(2),
        first_page: 0,
        num_pages: 1,
        system_memory: system(0),
        cache_coherent: false,
        allocation: KmdAllocationHandle(1),
    };
    let context = SetContext { process, context: KmdContextHandle(1), is_system: true };
    for command in [
        Command::FlushTlb(flush),
        Command::MapAperture(map),
        Command::SetAddressSpace(process),
        Command::SetContext(context),
    ] {
        let mut user = two_portions();
        user.commands.extend(bytes_of(&command));
        assert_eq!(answer(&user), Err(RenderStatus::PrivilegedInstruction), "{command:?}");
    }
    let mut user = two_portions();
    user.commands.extend([99, 0, 0, 0, 8, 0, 0, 0]);
    assert_eq!(answer(&user), Err(RenderStatus::IllegalInstruction));
    user.commands.truncate(user.commands.len() - 3);
    assert_eq!(answer(&user), Err(RenderStatus::IllegalInstruction), "cut off");
}

#[test]
fn an_address_of_the_users_own_choice_is_privileged() {
    let mut user = two_portions();
    user.patch_locations.remove(2);
    assert_eq!(answer(&user), Err(RenderStatus::PrivilegedInstruction));
    user.commands.extend(kernel(3, 0, &[], &[]));
    assert_eq!(answer(&user), Err(RenderStatus::PrivilegedInstruction));
    let harmless = UserCommands { commands: kernel(3, 0, &[range(0, 0)], &[]), patch_locations: Vec::new() };
    assert_eq!(answer(&harmless), Ok(()), "no page is accessed");
}

#[test]
fn patch_locations_that_lead_astray_are_refused() {
    let wrong = |what: &str, change: &dyn Fn(&mut Vec<PatchLocation>)| {
        let mut user = two_portions();
        change(&mut user.patch_locations);
        assert_eq!(answer(&user), Err(RenderStatus::InvalidHandle), "{what}");
    };
    assert_eq!(answer(&two_portions()), Ok(()));
    wrong("no such element", &|list| list[0].allocation_index = 3);
    wrong("not an address", &|list| list[0].patch_offset += 8);
    wrong("an address that another one has", &|list| list[1].patch_offset = list[0].patch_offset);
    wrong("beyond the commands", &|list| list[0].patch_offset = 1 << 30);
    wrong("part of a page", &|list| list[0].allocation_offset += 8);
    wrong("beyond the allocation", &|list| list[0].allocation_offset = (PAGES * PAGE) as u32 - 2 * PAGE as u32);
    wrong("a split point inside a command", &|list| list[0].split_offset += 1);
    wrong("split points that go back", &|list| list.swap(0, 1));
    wrong("bound only after its use", &|list| list[0].split_offset = list[1].split_offset);
    wrong("used in a portion that may run later", &|list| {
        list[3].split_offset = list[0].split_offset;
        list.rotate_right(1);
    });
    wrong("another one is in the slot", &|list| list[3].slot_id = 0);
    wrong("an offset that no number holds", &|list| list[0].allocation_offset = !0xFFF);
}

#[test]
fn read_only_elements_must_not_be_written() {
    let (mut rig, a, b) = rig();
    let elements = [NULL, element(a, true, None), element(b, false, None)];
    let answer = render_in(&mut rig.rig.kmd, &two_portions(), &elements, 4096).unwrap_err();
    assert_eq!(answer, RenderStatus::InvalidHandle);
    let elements = [NULL, element(a, true, None), element(KmdAllocationHandle(99), true, None)];
    let answer = render_in(&mut rig.rig.kmd, &two_portions(), &elements, 4096).unwrap_err();
    assert_eq!(answer, RenderStatus::InvalidHandle, "it was destroyed");
}

/// A portion: which slots are bound or emptied, and what its kernels touch.
fn portions() -> impl Strategy<Value = Vec<CommandStep>> {
    let range =
        || (0u32..4, 0..PAGES, 0u64..4).prop_map(|(slot, first, pages)| (slot, first, pages.min(PAGES - first)));
    let ranges = || prop::collection::vec(range(), 0..3);
    let kernel =
        || (any::<u64>(), ranges(), ranges()).prop_map(|(n, i, o)| CommandStep::Kernel(bound_kernel(n, &i, &o)));
    let bind =
        (0u32..4, 1u32..3).prop_map(|(slot_id, allocation_index)| CommandStep::Bind { slot_id, allocation_index });
    let steps = prop_oneof![2 => Just(CommandStep::SplitPoint), 3 => kernel(), 2 => bind];
    prop::collection::vec(steps, 0..20).prop_map(|steps| {
        let all = (0..4).map(|slot_id| CommandStep::Bind { slot_id, allocation_index: 1 + slot_id % 2 });
        all.chain(steps).collect()
    })
}

proptest! {
    #[test]
    fn however_small_the_dma_buffer_is_the_result_is_the_same(steps in portions(), step in 1usize..200, known: [bool; 2]) {
        let (mut rig, a, b) = rig();
        let user = SoftUmd.encode_command_buffer(&steps);
        let elements = list(a, b, known.map(|known| known.then_some(local(77 * PAGE))));
        // A slot may be bound anew in a portion that has used it: that is the user's mistake, and refused.
        let whole = render_in(&mut rig.rig.kmd, &user, &elements, 1 << 20);
        let parts = render_in(&mut rig.rig.kmd, &user, &elements, step);
        match (whole, parts) {
            (Ok(whole), Ok(parts)) => {
                prop_assert_eq!(&whole.dma, &parts.dma);
                prop_assert_eq!(&whole.patch_locations, &parts.patch_locations);
                prop_assert!(whole.patch_locations.is_sorted_by_key(|location| location.split_offset));
            }
            (whole, parts) => prop_assert_eq!(whole.unwrap_err(), parts.unwrap_err()),
        }
    }

    #[test]
    fn any_commands_and_patch_locations_render_without_panic(
        steps in portions(),
        wrong in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        locations in prop::collection::vec((0u32..4, 0u32..5, 0u32..3, 0u32..400, 0u32..400), 0..4),
    ) {
        let (mut rig, a, b) = rig();
        let mut user = SoftUmd.encode_command_buffer(&steps);
        for (at, byte) in wrong {
            let at = at.index(user.commands.len());
            user.commands[at] = byte;
        }
        for (allocation_index, slot_id, pages, patch_offset, split_offset) in locations {
            let allocation_offset = pages * PAGE as u32;
            user.patch_locations.push(PatchLocation {
                allocation_index, slot_id, driver_id: 0, allocation_offset, patch_offset, split_offset,
            });
        }
        user.patch_locations.sort_by_key(|location| location.split_offset);
        let elements = list(a, b, [Some(local(0)), None]);
        if let Ok(mut rendered) = render_in(&mut rig.rig.kmd, &user, &elements, 64) {
            let end = rendered.dma.len();
            patch(&mut rig.rig.kmd, &mut rendered, &elements, 0, end);
        }
    }
}

#[test]
fn a_split_buffer_computes_what_the_whole_one_does() {
    // A is paged out between the portions, and comes back elsewhere.
    let (mut rig, a, b) = rig();
    rig.rig.system.lock().write_pages(0, PAGES, Content::Ramp, |page| page);
    rig.transfer(system(0), local(0), 0, PAGES);
    let user = two_portions();
    let mut rendered = render(&mut rig.rig.kmd, &user, &list(a, b, [None, None]));
    let split = rendered.patch_locations[1].split_offset as usize;
    let end = rendered.dma.len();
    let first = patch(&mut rig.rig.kmd, &mut rendered, &list(a, b, [Some(local(0)), None]), 0, split);
    rig.rig.run_well(rig.user, first);
    rig.page(&transfer(a, local(0), system(1 << 30), 0, PAGES));
    rig.page(&transfer(a, system(1 << 30), local(1 << 20), 0, PAGES));
    let elements = list(a, b, [Some(local(1 << 20)), Some(local(0))]);
    let second = patch(&mut rig.rig.kmd, &mut rendered, &elements, split, end);
    rig.rig.run_well(rig.user, second);
    let written = |page| uniform_digest(KernelState::new(1).seed(0, page));
    assert_eq!(rig.digests(local(0), 1), [expected(2, &[written(0), written(2)])]);
}
