//! Allocations: their creation and their end.

use alloc::vec::Vec;
use bitflags::bitflags;

use vidmm_linear::HintedBank;

use crate::{
    adapter::{Adapter, NotificationRevision, patching::Hint},
    budget::account::{Account, Choices, Home},
    calls::sharing,
    contract::{
        AllocationFlags, AllocationFlags2, AllocationInfo, Direction, Host, Kmd, SegmentPreference, SegmentSet,
        WddmVersion,
    },
    event::{
        Event,
        destroy_flags::DestroyFlags,
        error::{AllocationInfoRule, CreateError, DriverFinding, Violation},
        list_flags::EvictFlags,
    },
    id::{AllocationId, AllocationIx, DeviceId, DeviceIx, InvalidHandle},
    manager::VidMm,
    moment::Moment,
    objects::{
        Objects,
        allocation::{Allocation, AllocationState, Owner},
        device::{Deferred, DeferredAction},
    },
    requests::Requests,
    residency::{pins, views, weight},
    state::State,
    units::{PAGE_SIZE, PAGE_SIZE_64K, PageSize, PhysicalAddress, SegmentId},
};

/// An allocation to be created. The private data alone makes one that no other device may open.
#[doc(alias = "D3DKMT_CREATEALLOCATION")]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CreateAllocationDesc<'d> {
    /// The data from the driver's user-mode part; the core does not understand it (CRE-03).
    pub private_driver_data: &'d [u8],
    /// The flags.
    pub flags: CreateAllocationFlags,
    /// With EXISTING_SYS_MEM in the driver's answer: the place of its content, in memory of the caller's that stays
    /// there until the allocation is gone. A multiple of 64 KiB, as long as the allocation.
    pub existing_sys_mem: Option<PhysicalAddress>,
}

impl<'d> From<&'d [u8]> for CreateAllocationDesc<'d> {
    fn from(private_driver_data: &'d [u8]) -> Self {
        Self { private_driver_data, ..Self::default() }
    }
}

impl<'d, const N: usize> From<&'d [u8; N]> for CreateAllocationDesc<'d> {
    fn from(private_driver_data: &'d [u8; N]) -> Self {
        Self::from(&private_driver_data[..])
    }
}

impl<'d> From<&'d Vec<u8>> for CreateAllocationDesc<'d> {
    fn from(private_driver_data: &'d Vec<u8>) -> Self {
        Self::from(&private_driver_data[..])
    }
}

bitflags! {
    /// How an allocation is created, with WDDM's bit positions (CRE-41).
    #[doc(alias = "D3DKMT_CREATEALLOCATIONFLAGS")]
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct CreateAllocationFlags: u32 {
        /// Other devices may open it.
        const CREATE_SHARED = 1 << 1;
    }
}

/// # Allocations
impl VidMm {
    /// Creates an allocation. The driver decides what it is from its private data (CRE-03); the host commits its
    /// backing store (U-9). It is nowhere in the segment until MakeResident (CRE-43), and reads as zero (CRE-42).
    ///
    /// # Errors
    ///
    /// If the driver or the host refuses, or the driver's decision is impossible. Nothing then remains of it.
    #[doc(alias = "D3DKMTCreateAllocation2")]
    #[doc(alias = "DxgkDdiCreateAllocation")]
    pub fn create_allocation<'d>(
        &mut self,
        kmd: &mut dyn Kmd,
        host: &mut dyn Host,
        device: DeviceId,
        desc: impl Into<CreateAllocationDesc<'d>>,
    ) -> Result<AllocationId, CreateError> {
        let CreateAllocationDesc { private_driver_data, flags, existing_sys_mem } = desc.into();
        let device_index = self.state.objects.devices.lookup(device)?;
        self.state.objects.check_device(&self.state.moment, device_index)?;
        let info = kmd.create_allocation(private_driver_data)?;
        let is_shared = flags.contains(CreateAllocationFlags::CREATE_SHARED);
        let shared = if is_shared { AllocationState::SHARED } else { AllocationState::empty() };
        let choices = choices(&self.state.adapter, &info);
        let size = check_allocation(&self.state.adapter, &info, choices);
        let allocation_state = notifications(&self.state.adapter, &info)
            .map(|notify| notify | access(&self.state.adapter, &info) | shared);
        let sys_mem = check_sys_mem(&info, existing_sys_mem);
        let checked = size.and_then(|size| Ok((size, allocation_state? | sys_mem?)));
        let committed = checked.and_then(|(size, allocation_state)| {
            let committed =
                existing_sys_mem.map_or_else(|| self.plans.commit_backing_store(&mut self.state, host, size), Ok);
            Ok((size, allocation_state, committed.map_err(CreateError::from)?))
        });
        let (size, allocation_state, backing_store) =
            committed.inspect_err(|_| kmd.destroy_allocation(info.allocation))?;
        report_notifications(&self.state.adapter, &mut self.state.moment, &info, size);
        let owner = Owner { process: self.state.objects[device_index].process, device: device_index };
        let (handle, priority) = (info.allocation, info.allocation_priority);
        let mut allocation =
            Allocation::new(handle, size, backing_store.offset, owner, priority, choices, allocation_state);
        allocation.preferred = info.preferred_segment;
        allocation.set_alignment(info.alignment);
        if info.flags.contains(AllocationFlags::CPU_VISIBLE) {
            let adapter = &self.state.adapter;
            allocation.set_seen_in(|account| adapter.memory_segment(account).is_some_and(|memory| memory.cpu_visible));
        }
        let allocation = self.state.objects.allocations.insert(allocation);
        note_hint(&self.state.adapter, &mut self.state.objects, allocation.ix(), &info);
        self.state.objects[device_index].allocations += 1;
        let process = self.state.objects.processes.id(owner.process);
        self.state.moment.record(|| Event::AllocationCreated {
            allocation,
            device,
            process,
            handle,
            size,
            priority,
            backing_store: backing_store.offset,
            supported_segment_set: info.supported_segment_set.0,
            preferred_segment: info.preferred_segment.segment_ids.first().copied().filter(|first| !first.is_system()),
            accessed_physically: info.flags.contains(AllocationFlags::ACCESSED_PHYSICALLY),
            notify: notify_flags(allocation_state),
            shared: is_shared,
            existing_sys_mem: existing_sys_mem.is_some(),
            cached: info.flags.contains(AllocationFlags::CACHED),
            disable_large_page_mapping: info.flags.contains(AllocationFlags::DISABLE_LARGE_PAGE_MAPPING),
            permanent_sys_mem: info.flags.contains(AllocationFlags::PERMANENT_SYS_MEM),
            explicit_residency_notification: allocation_state.contains(AllocationState::NOTIFY_RESIDENCY),
        });
        self.state.record_counted(allocation.ix(), false);
        Ok(allocation)
    }

    /// Destroys an allocation. Work submitted before may still use it (RES-91): its memory, its addresses and its
    /// backing store are free when that has ended, and the handle is invalid at once. It leaves its device's list; the
    /// CPU sees it no more, however often it was locked.
    ///
    /// A shared allocation that others have open lives on with them (U-34).
    ///
    /// # Errors
    ///
    /// If the handle names nothing.
    #[doc(alias = "D3DKMTDestroyAllocation2")]
    pub fn destroy_allocation(
        &mut self,
        host: &mut dyn Host,
        allocation: AllocationId,
        flags: DestroyFlags,
    ) -> Result<(), InvalidHandle> {
        let index = self.state.objects.lookup_allocation(allocation)?;
        self.end_allocation(host, index, flags);
        Ok(())
    }

    /// Destroys an allocation of a device; or hands a shared one over to another device that has it open.
    pub(crate) fn end_allocation(&mut self, host: &mut dyn Host, index: AllocationIx, flags: DestroyFlags) {
        let state = &mut self.state;
        let allocation = state.objects.allocation_id(index);
        // Only the owner locks an allocation: nobody could end the locks of a former one.
        let locks = state.objects[index].lock().map_or(0, |lock| lock.count);
        for locks in (0..locks).rev() {
            state.moment.record(|| Event::Unlocked { allocation, locks });
        }
        views::end_locks(&mut state.objects, host, index);
        state.moment.record(|| Event::AllocationDestroyed { allocation, flags });
        state.residency.end_offer(&mut state.objects, index);
        // A former owner of a shared one may be waiting already.
        if flags.contains(DestroyFlags::SYNCHRONOUS_DESTROY) {
            state.objects[index].end_synchronously();
        }
        if !sharing::hand_over(state, &mut self.requests, index) {
            destroy(state, &mut self.requests, index, flags);
        } else if locks > 0 {
            self.plans.refresh(&mut state.moment, &mut state.objects, index);
        }
    }
}

/// Destroys an allocation that no other device has open.
fn destroy(state: &mut State, requests: &mut Requests, index: AllocationIx, flags: DestroyFlags) {
    let device = state.objects[index].device;
    // An allocation that a decided portion requires leaves its list when the portion has been handed out.
    if !state.objects[device].has_reference_lists() {
        state.leave_list(index, device, EvictFlags::EVICT_ONLY_IF_NECESSARY);
    }
    // Without GPU virtual addresses an access would not fault: queued work is patched with the allocation's present
    // address.
    if flags.contains(DestroyFlags::ASSUME_NOT_IN_USE) && !state.adapter.is_physical() {
        return destroy_at_once(state, requests, index, device);
    }
    // Work that was submitted and still waits for its grant may need it: until then it can be evicted and come back.
    state.objects[index].destroy();
    state.residency.unpin(&mut state.moment, &mut state.objects, &mut state.memory, index);
    if state.objects.is_queued(index) {
        // The last DMA buffer that refers to it purges it.
        state.objects[index].purge_when_unused();
        return;
    }
    requests.defer(&mut state.objects, device, DeferredAction::Purge(index));
}

/// The size of the allocation where it may live, or why it cannot be.
fn check_allocation(adapter: &Adapter, info: &AllocationInfo, choices: Choices) -> Result<u64, CreateError> {
    let broken = |rule| Err(CreateError::Violation(Violation::AllocationInfo { rule }));
    let SegmentSet(set) = info.supported_segment_set;
    if set == 0 || set & !adapter.segments_mask != 0 {
        return broken(AllocationInfoRule::SegmentSet(set));
    }
    let page_sizes = choices.accounts().map(|account| adapter.page_size_in(account));
    let page_size = page_sizes.max().unwrap_or(PageSize::Kib4).bytes();
    let size = info.size.checked_next_multiple_of(page_size).filter(|&size| size > 0);
    let Some(size) = size.filter(|&size| size <= 1 << 62) else {
        return broken(AllocationInfoRule::Size(info.size));
    };
    let alignment = u64::from(info.alignment);
    if alignment != 0 && (!alignment.is_power_of_two() || alignment < page_size) {
        return broken(AllocationInfoRule::Alignment(info.alignment));
    }
    let preferred = info.preferred_segment.segment_ids.into_iter().take_while(|segment| segment.0 != 0);
    if let Some(outside) = preferred.into_iter().find(|&segment| !info.supported_segment_set.contains(segment)) {
        return broken(AllocationInfoRule::PreferredSegment(outside.0));
    }
    if info.allocation_priority == 0 {
        return broken(AllocationInfoRule::Priority);
    }
    let SegmentSet(eviction) = info.eviction_segment_set;
    if eviction & !adapter.aperture_set().0 != 0 {
        return broken(AllocationInfoRule::EvictionSegmentSet(eviction));
    }
    let hinted = info.hinted_bank.banks.into_iter().take_while(|&bank| bank > 0);
    let num_banks = adapter.num_banks(info.preferred_segment.segment_ids[0]);
    if let Some(outside) = hinted.into_iter().find(|&bank| usize::from(bank) > num_banks && adapter.is_physical()) {
        return broken(AllocationInfoRule::HintedBank(outside));
    }
    let in_memory = choices.accounts().any(Account::is_memory);
    let is_told = info.flags.contains(AllocationFlags::EXPLICIT_RESIDENCY_NOTIFICATION);
    if is_told && !info.flags.contains(AllocationFlags::ACCESSED_PHYSICALLY) {
        return broken(AllocationInfoRule::ExplicitResidencyNotification);
    }
    let is_contiguous = adapter.is_physical() || info.flags.contains(AllocationFlags::ACCESSED_PHYSICALLY);
    let may_hold = |account: Account| account == Account::SYSTEM || adapter.may_hold_ranges(account);
    if is_contiguous && in_memory && !choices.accounts().all(may_hold) {
        return Err(CreateError::NotSupported(
            "contiguous placement in a segment of more than 1 TiB, or of page tables without `page_table_area`",
        ));
    }
    // Ranges of the aperture begin at multiples of 64 KiB. Of pages it is the addresses that are aligned.
    if is_contiguous && choices.contain_account(Account::SYSTEM) && alignment > PAGE_SIZE_64K {
        return Err(CreateError::NotSupported("ranges of the aperture that are aligned to more than 64 KiB"));
    }
    Ok(size)
}

/// The segments where the driver lets the allocation be resident. An aperture segment in its set is system memory
/// (SEG-11, SEG-12).
pub(crate) fn choices(adapter: &Adapter, info: &AllocationInfo) -> Choices {
    adapter.choices(info.supported_segment_set, info.preferred_segment)
}

/// Whether engines find the allocation by its physical address, and the driver is told that address, as bits of its
/// state.
pub(crate) fn access(adapter: &Adapter, info: &AllocationInfo) -> AllocationState {
    let mut allocation_state = AllocationState::empty();
    let physically = adapter.is_physical() || info.flags.contains(AllocationFlags::ACCESSED_PHYSICALLY);
    allocation_state.set(AllocationState::ACCESSED_PHYSICALLY, physically);
    let is_never_large = info.flags.contains(AllocationFlags::DISABLE_LARGE_PAGE_MAPPING);
    allocation_state.set(AllocationState::NO_LARGE_PAGES, is_never_large);
    // Drivers of WDDM 1 do not know the operation.
    let is_told = adapter.version >= WddmVersion::WDDM2_0
        && info.flags.contains(AllocationFlags::EXPLICIT_RESIDENCY_NOTIFICATION);
    allocation_state.set(AllocationState::NOTIFY_RESIDENCY, is_told);
    allocation_state
}

/// The hints for the place of an allocation in linear memory segments (SEG-42 to SEG-44).
fn note_hint(adapter: &Adapter, objects: &mut Objects, index: AllocationIx, info: &AllocationInfo) {
    if !weight::is_one_range(&objects[index]) {
        return;
    }
    let account_of = |&segment: &SegmentId| adapter.home_in(segment).map(Home::account);
    let in_memory = |segment| account_of(segment).is_some_and(Account::is_memory);
    let preferred = info.preferred_segment.segment_ids.iter().position(in_memory);
    let by_flag = match info.flags.contains(AllocationFlags::FROM_END_OF_SEGMENT) {
        true => Direction::FromEnd,
        false => Direction::FromStart,
    };
    let direction = preferred.map_or(by_flag, |at| info.preferred_segment.directions[at]);
    let hints = info.hinted_bank.banks.into_iter().zip(info.hinted_bank.directions);
    let hints = hints.take_while(|&(bank, _)| bank > 0).filter(|_| preferred == Some(0));
    let hinted_banks = hints.map(|(bank, direction)| HintedBank { bank, direction }).collect();
    let hint = Hint { alignment: u64::from(info.alignment).max(PAGE_SIZE), direction, hinted_banks };
    let patched = objects[index].patched_mut();
    patched.hint = hint;
    patched.hinted_in = preferred.and_then(|at| account_of(&info.preferred_segment.segment_ids[at]));
    if adapter.is_physical() {
        patched.leaves_through = adapter.choices(info.eviction_segment_set, SegmentPreference::default());
    }
}

/// The notifications that the driver asked for and will get (CRE-07, NTF-05).
pub(crate) fn notifications(adapter: &Adapter, info: &AllocationInfo) -> Result<AllocationState, CreateError> {
    let mut allocation_state = AllocationState::empty();
    if adapter.version < WddmVersion::WDDM3_2 {
        return Ok(allocation_state);
    }
    let as_eviction = adapter.revision == NotificationRevision::August2024;
    let unmapped = as_eviction || !adapter.has_page_tables();
    let wants = |flag| info.flags2.contains(flag);
    allocation_state.set(AllocationState::NOTIFY_EVICTION, wants(AllocationFlags2::NOTIFY_EVICTION));
    allocation_state
        .set(AllocationState::NOTIFY_IO_MMU_UNMAP, unmapped && wants(AllocationFlags2::NOTIFY_IO_MMU_UNMAP));
    if is_shown_in_window(adapter, info) && adapter.paging_va_size == 0 {
        return Err(CreateError::NoPagingVa { model: adapter.model });
    }
    Ok(allocation_state)
}

/// Whether the notifications that the driver asks for show the allocation in a window of the paging process.
fn is_shown_in_window(adapter: &Adapter, info: &AllocationInfo) -> bool {
    let mut in_window = AllocationFlags2::NOTIFY_EVICTION;
    if adapter.revision == NotificationRevision::August2024 {
        in_window |= AllocationFlags2::NOTIFY_IO_MMU_UNMAP;
    }
    info.flags2.intersects(in_window)
}

/// Tells the driver's author which flags of an allocation will have no effect.
fn report_notifications(adapter: &Adapter, moment: &mut Moment, info: &AllocationInfo, size: u64) {
    let known = AllocationFlags2::NOTIFY_EVICTION | AllocationFlags2::NOTIFY_IO_MMU_UNMAP;
    let flags2 = info.flags2 & known;
    let &Adapter { version, revision, paging_va_size, .. } = adapter;
    if version < WddmVersion::WDDM3_2 {
        if !flags2.is_empty() {
            moment.report(DriverFinding::FlagsBeyondVersion { flags2, wddm_version: version.0 });
        }
        return;
    }
    let may_be_notified = info.supported_segment_set.0 & adapter.aperture_set().0 != 0;
    if may_be_notified && is_shown_in_window(adapter, info) && size > paging_va_size {
        moment.report(DriverFinding::AllocationBeyondPagingVa { size, paging_va_size });
    }
    let never_sent = adapter.has_page_tables() && revision == NotificationRevision::Current;
    if flags2.contains(AllocationFlags2::NOTIFY_IO_MMU_UNMAP) && never_sent {
        moment.report(DriverFinding::NotifyIoMmuUnmapWithoutIoMmu);
    }
}

/// Destroys an allocation that the work of the owner's device does not use: nothing waits for that work (RES-91).
fn destroy_at_once(state: &mut State, requests: &mut Requests, index: AllocationIx, device: DeviceIx) {
    // Other devices may still read its writes.
    pins::note_writes_to(&mut state.objects, index);
    let (allocation, record) = state.objects.records(index, device);
    pins::release(allocation, record, device);
    state.shares.renew_promise(&mut state.objects, device);
    state.objects[device].expiring.forget(index);
    state.objects[index].entry_mut(device).forget_uses(&mut state.residency.spans);
    state.objects[index].destroy();
    state.residency.unpin(&mut state.moment, &mut state.objects, &mut state.memory, index);
    let record = &state.objects[device];
    let is_named = |deferred: &Deferred| deferred.action.allocation() == index;
    if record.granted < record.requests.len() || record.deferred.iter().any(is_named) {
        return requests.defer(&mut state.objects, device, DeferredAction::Purge(index));
    }
    requests.defer_first(&mut state.objects, device, DeferredAction::Purge(index));
}

/// The state of an allocation whose content in system memory is the caller's, or is kept (2.2).
fn check_sys_mem(info: &AllocationInfo, existing: Option<PhysicalAddress>) -> Result<AllocationState, CreateError> {
    let broken = |rule| Err(CreateError::Violation(Violation::AllocationInfo { rule }));
    let has = |flag| info.flags.contains(flag);
    let excluded = has(AllocationFlags::EXISTING_SYS_MEM) || !has(AllocationFlags::CPU_VISIBLE);
    if has(AllocationFlags::PERMANENT_SYS_MEM) && excluded {
        return broken(AllocationInfoRule::PermanentSysMem);
    }
    if has(AllocationFlags::CACHED) && !has(AllocationFlags::CPU_VISIBLE) {
        return broken(AllocationInfoRule::Cached);
    }
    let is_possible = |at: PhysicalAddress| at.segment.is_system() && at.offset.is_multiple_of(PAGE_SIZE_64K);
    if existing.is_some_and(is_possible) != has(AllocationFlags::EXISTING_SYS_MEM) {
        return broken(AllocationInfoRule::ExistingSysMem(existing));
    }
    let mut state = AllocationState::empty();
    state.set(AllocationState::KEEPS_COPY, has(AllocationFlags::PERMANENT_SYS_MEM) || existing.is_some());
    state.set(AllocationState::CACHED, has(AllocationFlags::CACHED));
    // The caller's memory has content from the beginning.
    let with_content = AllocationState::EXISTING_SYS_MEM.union(AllocationState::BACKED);
    Ok(if existing.is_some() { state.union(with_content) } else { state })
}

/// The notifications that an allocation will get, as the driver asked for them.
fn notify_flags(state: AllocationState) -> AllocationFlags2 {
    let mut flags = AllocationFlags2::empty();
    flags.set(AllocationFlags2::NOTIFY_EVICTION, state.contains(AllocationState::NOTIFY_EVICTION));
    flags.set(AllocationFlags2::NOTIFY_IO_MMU_UNMAP, state.contains(AllocationState::NOTIFY_IO_MMU_UNMAP));
    flags
}
