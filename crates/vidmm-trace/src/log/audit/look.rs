//! Each event goes to the subjects that it belongs to: a new event does not compile before it has its place here.

use vidmm::contract::{EngineFence, PageFaultFlags, RootPageTable};
use vidmm::event::EvictReason;
use vidmm::{Event, MemorySegmentGroup, TrimFlags, TrimIntervals};

use super::Audit;
use super::allocation::Place;
use super::aspects::{Chunk, Pool};
use super::cleaning::Said;
use super::demands::Weight;
use super::fences::Queue;
use super::finding::Invariant;
use super::io_mmu::Range;
use super::offers::RefusedMemory;
use super::tables::Table;

impl Audit {
    /// Looks at an event after all that must hold before it was checked.
    pub(super) fn look(&mut self, event: &Event) {
        match *event {
            // The start of the adapter.
            Event::AdapterStarted { .. } => self.adapter_started(event),
            Event::PagingVaQueried {
                query_type,
                physical_adapter_index,
                input_data_size,
                output_data_size,
                answer_mib,
                paging_va_size,
            } => {
                let form = (query_type, input_data_size, output_data_size);
                self.paging_va_queried(form, physical_adapter_index, answer_mib, paging_va_size);
            }
            Event::DriverFinding { finding } => self.driver_finding(finding),
            // Objects.
            Event::ProcessCreated { process, handle } => self.process_created(process, handle),
            Event::DeviceCreated { device, process, residency } => self.device_created(device, process, residency),
            Event::ContextCreated { context, device, engine } => self.context_created(context, device, engine),
            Event::PagingQueueCreated { queue, device, priority } => {
                self.born(queue, Some(device.into()));
                self.fences.queues.insert(queue, Queue::new(device, priority));
            }
            Event::MonitoredFenceCreated { fence, value, device } => {
                self.born(fence, None);
                self.fences.monitored.create(fence, value, device);
            }
            Event::AllocationCreated { .. } => self.allocation_created(event),
            Event::ProcessTerminated { process } => self.process_terminated(process),
            Event::DeviceTerminated { device } => self.device_terminated(device),
            Event::ProcessDestroyed { process } => self.process_destroyed(process),
            Event::DeviceDestroyed { device } => self.device_destroyed(device),
            Event::ContextDestroyed { context } => self.context_destroyed(context),
            Event::PagingQueueDestroyed { queue } => self.paging_queue_destroyed(queue),
            Event::MonitoredFenceDestroyed { fence } => self.monitored_fence_destroyed(fence),
            Event::AllocationDestroyed { allocation, flags } => {
                self.allocation_destroyed(allocation, flags);
                self.liveness.destroyed.insert(allocation);
                self.liveness.evicted.remove(&allocation);
            }
            Event::AllocationReclaimed { allocation } => {
                self.allocation_reclaimed(allocation);
                self.liveness.forget(allocation);
            }
            Event::AllocationOpened { allocation, device, process } => self.opened(allocation, device, process),
            Event::AllocationClosed { allocation, device } => self.closed(allocation, device),
            Event::AllocationOwnershipTransferred { allocation, device, process } => {
                self.transferred(allocation, device, process);
                self.liveness.forget(allocation);
            }
            // Properties.
            Event::AllocationPriorityChanged { allocation, priority } => {
                self.check_priority_is_possible(allocation, priority);
                self.allocations.entry(allocation).and_modify(|of| of.priority = priority);
            }
            Event::AllocationCounted { allocation, segment, anew } => self.counted(allocation, Pool(segment), anew),
            Event::AllocationPropertyUpdated { allocation, supported_segment_set, queue, paging_fence_value } => {
                self.property_updated(allocation, supported_segment_set, queue, paging_fence_value);
            }
            Event::ContextPriorityChanged { context, priority } => self.context_priority_changed(context, priority),
            Event::RootPageTableSet { context, address, num_entries } => {
                self.root_set(context, RootPageTable { address, num_entries });
            }
            // Addresses.
            Event::GpuVirtualAddressReserved { process, virtual_address, size, queue, paging_fence_value } => {
                self.reserve(process, virtual_address, size);
                self.ask_to_show(process, (virtual_address, size), queue, paging_fence_value);
            }
            Event::GpuVirtualAddressMapped { .. } => self.mapped(event),
            Event::GpuVirtualAddressFreed { process, virtual_address, size } => {
                self.free(process, virtual_address, size)
            }
            Event::GpuVirtualAddressReclaimed { process, virtual_address, size, reason } => {
                self.reclaim(process, virtual_address, size, reason);
            }
            // Requests, and lists of devices.
            Event::MakeResident { ref allocations, .. } => {
                self.make_resident_accepted(event);
                self.liveness.forget_evicted(allocations);
            }
            Event::MakeResidentRefused { device, ref allocations, flags, num_bytes_to_trim, reason, ref shortages } => {
                let named = shortages.iter().map(|shortage| shortage.num_bytes_to_trim).fold(0, u64::saturating_add);
                self.findings.check(named == num_bytes_to_trim, Invariant::I08, || {
                    format!("{device} is to trim {num_bytes_to_trim} bytes, but {named} of all memory by name")
                });
                self.refused(device, allocations, flags, reason, shortages);
            }
            Event::Evict { device, ref allocations, flags, after_submission, num_bytes_to_trim } => {
                self.check_names_any(allocations, "Evict");
                self.evict(device, allocations, flags, after_submission);
                self.check_left_to_trim(device, num_bytes_to_trim);
                self.note_evicted(allocations, flags);
            }
            Event::Granted { device, queue, paging_fence_value, ref plans } => {
                self.granted(device, queue, paging_fence_value, plans);
            }
            Event::PagingFenceSignaled { queue, value } => self.paging_fence_signaled(queue, value),
            // Offers.
            Event::Offered { device, ref allocations, priority, flags, after_submission } => {
                self.check_position(device, after_submission);
                self.check_names_any(allocations, "Offer");
                allocations.iter().for_each(|&id| self.offered(device, id, priority, flags, after_submission));
                self.liveness.forget_evicted(allocations);
            }
            Event::Reclaimed { ref allocations, .. } => {
                self.reclaimed(event);
                self.liveness.forget_evicted(allocations);
            }
            Event::BackingStoreRefused { size } => {
                self.refused_memory = Some(RefusedMemory { bytes: size, passed_over: Vec::new() });
            }
            Event::ContentDiscarded { allocation, plan } => self.discarded(allocation, plan),
            Event::Decommitted { allocation } => self.decommitted(allocation),
            // The views of the CPU.
            Event::Locked { allocation, address, segment, ref extents, .. } => {
                self.locked(allocation, address, (segment, extents.clone()));
                self.liveness.evicted.remove(&allocation);
            }
            Event::Rotated { plan, allocation, address, segment, ref extents } => {
                self.rotated(plan, allocation, address, (segment, extents.clone()));
            }
            Event::Unlocked { allocation, locks } => self.unlocked(allocation, locks),
            // Budgets.
            Event::ProcessPriorityChanged { process, band, visibility } => {
                self.processes.entry(process).and_modify(|of| of.weight = Weight { band, visibility });
                self.demands.relieved += 1;
                self.shares_changed(MemorySegmentGroup::Local);
                self.shares_changed(MemorySegmentGroup::NonLocal);
            }
            Event::ReservationChanged { process, group, reservation } => self.reserved(process, group, reservation),
            Event::BudgetRestricted { group, bytes } => {
                self.adapter.restrict_budgets(group, bytes);
                self.demands.relieved += 1;
                self.shares_changed(group);
            }
            Event::BudgetChanged { process, group, budget, requested } => {
                self.published(process, group, budget, requested);
                self.budget_moved(process, Some(group));
            }
            Event::TrimIntervalsSet { min, max, idle } => self.trim_intervals = TrimIntervals { min, max, idle },
            Event::TrimNotificationRegistered { notification, device } => {
                self.born(notification, None);
                self.listeners.insert(notification, device);
            }
            Event::TrimNotificationUnregistered { notification } => self.unregistered(notification),
            Event::TrimNotified { notification, device, flags, group, num_bytes_to_trim } => {
                self.trim_notified(notification, device, flags, num_bytes_to_trim);
                if flags.contains(TrimFlags::TRIM_TO_BUDGET) {
                    self.asked_to_trim(notification, device, group, num_bytes_to_trim);
                }
            }
            // The turns of devices.
            Event::DeviceYielded { device, reason, wanted_by } => self.yielded(device, reason, wanted_by),
            Event::DeviceSuspended { device } => self.suspended(device),
            Event::DeviceResumed { device, reason, ref plans } => {
                self.check_why_resumed(device, reason);
                self.resumed(device, plans);
            }
            Event::DeviceHeldUp { device, behind, since } => self.held_up(device, behind, since),
            Event::ProcessSuspended { process, allow_wake_on_submission } => {
                self.demands.relieved += 1;
                self.processes.entry(process).and_modify(|of| of.suspended = Some(allow_wake_on_submission));
            }
            Event::ProcessResumed { process, by_submission } => self.process_resumed(process, by_submission),
            // Work.
            Event::Submitted { .. } => self.work_submitted(event),
            Event::Rendered { device, .. } => {
                self.rendered(event);
                self.period_begins(device);
                self.submitted_to_its_process(device);
            }
            Event::Portion { .. } => self.portion(event),
            Event::PreparationFailed { dma_buffer, bytes, .. } => {
                self.portions.buffers.remove(&dma_buffer);
                self.findings.check(bytes > 0, Invariant::Log, || {
                    format!("DMA buffer {dma_buffer} is dropped, but binds nothing together")
                });
                self.demands.relieved += 1;
            }
            Event::Dispatched { device, submission, signal, ref waits } => {
                self.dispatched(device, submission, signal, waits);
            }
            Event::Completed { signal } => self.completed(signal),
            Event::Aborted { signal } => self.aborted(signal),
            Event::MonitoredFenceSignaled { fence, value } => {
                self.check_nothing_in_flight(fence, value);
                self.fences.monitored.signal((fence, value), &mut self.findings);
            }
            // Decisions.
            Event::Evicted { plan, allocation, segment, ref extents, copied, reason, discarded, wanted_by } => {
                self.check_not_for_prefetch(plan, allocation, reason);
                self.check_wanted(allocation, reason, wanted_by);
                self.check_reason(allocation, segment, reason);
                let comes_home = self.check_leaves_for_home(allocation, segment, reason, wanted_by);
                let wanted_by = wanted_by.map(|wanted| wanted.device);
                self.check_victim_order(allocation, segment, reason, wanted_by, comes_home);
                let left = Place { plan, segment, extents: extents.clone() };
                self.range_is_emptied(allocation, &left, reason);
                self.evicted(allocation, left, copied, reason, discarded);
                self.check_is_updated();
                self.forced_out = (reason == EvictReason::PropertyUpdated).then_some((allocation, segment));
                self.liveness.evicted.remove(&allocation);
            }
            Event::Announced { device, ref allocations } => self.announced(device, allocations),
            Event::Prefetched { plan, allocation, reason } => self.prefetched(plan, allocation, reason),
            Event::Placed { plan, allocation, segment, ref extents, content } => {
                self.placed(allocation, Place { plan, segment, extents: extents.clone() }, content);
            }
            Event::Cleaned { plan, allocation, offset, size, is_last, ahead, watermark } => {
                self.cleaned(plan, allocation, Said { part: Chunk { offset, size }, is_last, ahead, watermark });
            }
            Event::Refreshed { plan, allocation } => self.refreshed(plan, allocation),
            Event::PageTablePlaced { plan, process, level, page_size, virtual_address, address, size } => {
                let table = Table::new(level, page_size, virtual_address);
                self.page_table_placed(plan, process, table, address, size);
            }
            Event::PageTableFreed { plan, process, level, page_size, virtual_address, address, size } => {
                let table = Table::new(level, page_size, virtual_address);
                self.page_table_freed(plan, process, table, address, size);
            }
            Event::PlanDecided { plan, ref waits, ref after } => self.plan_decided(plan, waits, after),
            Event::PlanEntered { plan } => self.plan_entered(plan),
            Event::PlanBuilt { plan, signal } => self.plan_built(plan, signal),
            Event::PlanRetired { plan } => {
                self.link.retired(plan, self.at);
                self.plan_retired(plan);
            }
            // Paging.
            Event::PagingOperation { plan, ref operation, status, offset, bytes, .. } => {
                self.check_goes_on(operation, status);
                match operation.is_by_cpu() {
                    true => self.check_by_cpu(offset, bytes),
                    false => self.open_buffer.write(offset, bytes, &mut self.findings),
                }
                self.note_paged(operation, bytes);
                let in_open_buffer = offset > 0 || bytes > 0;
                self.operation(plan, operation, status, in_open_buffer);
            }
            Event::PagingBufferSubmitted { signal, bytes } => self.buffer_submitted(signal, bytes),
            Event::IoMmuMapped { plan, domain, virtual_address, allocation, allocation_offset, size, window } => {
                let range = Range { plan, allocation, allocation_offset, window, packet: None };
                self.io_mmu_mapped(domain, virtual_address, size, range);
            }
            Event::IoMmuUnmapped { plan, domain, virtual_address, size, window } => {
                self.io_mmu_unmapped(plan, (domain, virtual_address), size, window);
            }
            // Engines that stop, yield or are reset.
            Event::PageFault { signal, virtual_address, allocation, flags, below, above, ref in_flight, .. } => {
                self.check_fault(signal, virtual_address, allocation, [below, above]);
                let right: Vec<EngineFence> = self.fences.in_flight().collect();
                self.findings.check(*in_flight == right, Invariant::Log, || {
                    format!("{in_flight:?} are said to be under way, but by the log {right:?} are")
                });
                self.stopped(signal, flags.contains(PageFaultFlags::FENCE_INVALID));
            }
            Event::IllegalCommand { signal } => self.stopped(signal, false),
            Event::PreemptRequested { engine, preemption_fence_id, reason } => {
                self.preempt_requested(engine, preemption_fence_id, reason);
            }
            Event::Preempted { engine, preemption_fence_id, last_completed_fence_id, ref returned } => {
                self.preempted(engine, preemption_fence_id, last_completed_fence_id, returned);
            }
            Event::PreemptTimedOut { engine, preemption_fence_id } => {
                self.preempt_timed_out(engine, preemption_fence_id);
            }
            Event::EngineResetBegun { engine, reason, ref dependent_engines } => {
                self.check_dependents_yield(engine, dependent_engines);
                self.engine_reset_begun(engine, reason);
            }
            Event::EngineReset { engine, last_aborted_fence_id, ref returned } => {
                self.engine_reset(engine, last_aborted_fence_id, returned);
            }
            Event::Resubmitted { before, signal, ref waits } => self.resubmitted(before, signal, waits),
            // Errors, the reset of the adapter, and its power.
            Event::DeviceInError { device, reason } => self.device_in_error(device, reason),
            Event::ProcessBlocked { process } => self.process_blocked(process),
            Event::AdapterResetBegun { cause } => {
                self.reset_begun(cause);
                self.liveness.evicted.clear();
                self.forget_periods();
            }
            Event::PurgeOperation { allocation, ref operation, status } => self.purged(allocation, operation, status),
            Event::ContentLost { allocation, is_kept } => self.content_lost(allocation, is_kept),
            Event::PlanAbandoned { plan } => self.plan_abandoned(plan),
            Event::AdapterRestarted => self.restarted(),
            Event::AdapterInError { ref violation } => self.adapter_failed(violation),
            Event::PoweredDown => {
                self.liveness.evicted.clear();
                self.forget_periods();
                self.powered_down();
            }
            Event::PoweredUp => self.powered_up(),
            // The checker tells what work reads.
            Event::ContentChecked { .. } | Event::AccessedOverBus { .. } | Event::Finding { .. } => {}
        }
        for group in std::mem::take(&mut self.reweighted) {
            self.shares_changed(group);
        }
    }
}
