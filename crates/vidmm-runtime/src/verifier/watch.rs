//! The two places where a verifier watches.

use std::cell::RefCell;
use std::rc::Rc;

use vidmm::contract::{
    AdapterInfo, BuildPagingBuffer, BuildStatus, EngineFence, Kmd, KmdContextHandle, KmdProcessHandle, Packet, Patch,
    RootPageTable, SubmitCommand,
};
use vidmm::{Nanoseconds, PhysicalAddress};

use super::page::Page;
use super::state::State;
use crate::{Content, Gpu, GpuEvent, KmdHook};

/// A verifier before a driver.
pub(super) struct DriverWatch(pub Rc<RefCell<State>>);

impl KmdHook for DriverWatch {
    fn build_paging_buffer(&mut self, driver: &mut dyn Kmd, build: &mut BuildPagingBuffer<'_>) -> BuildStatus {
        if self.0.borrow().is_resetting {
            return driver.build_paging_buffer(build);
        }
        let number = self.0.borrow_mut().begin_operation(build);
        let status = driver.build_paging_buffer(build);
        self.0.borrow_mut().end_build(number, build, status);
        status
    }

    fn patch(&mut self, driver: &mut dyn Kmd, patch: &mut Patch<'_>) {
        driver.patch(patch);
        self.0.borrow_mut().check_patch(patch);
    }

    fn adapter_queried(&mut self, info: &AdapterInfo) {
        self.0.borrow_mut().documented.describe(info);
    }

    fn process_created(&mut self, process: KmdProcessHandle, system_process: bool) {
        if system_process {
            self.0.borrow_mut().documented.set_paging_process(process);
        }
    }

    fn root_page_table_set(&mut self, context: KmdContextHandle, root: RootPageTable) {
        self.0.borrow_mut().documented.set_root(context, root);
    }

    fn command_submitted(&mut self, submit: &SubmitCommand) {
        if submit.paging {
            let fence = EngineFence { engine: submit.node_ordinal, fence_id: submit.submission_fence_id };
            self.0.borrow_mut().submit_paging(fence);
        }
    }
}

/// A verifier before a GPU.
pub(super) struct VerifiedGpu(pub Rc<RefCell<State>>);

impl Gpu for VerifiedGpu {
    fn submit(&mut self, now: Nanoseconds, packet: Packet) {
        let state = &mut *self.0.borrow_mut();
        state.now = now;
        let EngineFence { engine, fence_id } = packet.signal;
        state.engines.entry(engine).or_default().push_back((fence_id, packet.waits.clone()));
        state.prepare_heads();
        state.gpu.submit(now, packet);
    }

    fn next_event_at(&self) -> Option<Nanoseconds> {
        let state = self.0.borrow();
        // A finding about an encoding is to be told soon.
        let told_at = (!state.found.is_empty()).then_some(state.now);
        state.gpu.next_event_at().into_iter().chain(told_at).min()
    }

    fn advance(&mut self, now: Nanoseconds, events: &mut Vec<GpuEvent>) {
        let state = &mut *self.0.borrow_mut();
        state.now = now;
        let mut reported = Vec::new();
        state.gpu.advance(now, &mut reported);
        for event in &reported {
            if let GpuEvent::KernelWrote { address, num_pages, compressed } = *event {
                state.written(Page::of(address), num_pages);
                if let Some((allocation, first)) = compressed {
                    state.begun_effects().for_each(|effect| effect.compressed(allocation, &(first..first + num_pages)));
                }
            }
        }
        let last = reported.iter().rposition(|event| matches!(event, GpuEvent::Completed { .. }));
        for (number, event) in reported.into_iter().enumerate() {
            state.see(&event, Some(number) == last);
            events.extend(state.found.drain(..).map(|wrong| GpuEvent::WrongEffect(Box::new(wrong))));
            events.push(event);
        }
        events.extend(state.found.drain(..).map(|wrong| GpuEvent::WrongEffect(Box::new(wrong))));
        state.prepare_heads();
    }

    fn caches_translations(&self) -> bool {
        self.0.borrow().gpu.caches_translations()
    }

    fn executes_commands(&self) -> bool {
        self.0.borrow().gpu.executes_commands()
    }

    fn page_digest(&self, address: PhysicalAddress) -> Option<u64> {
        self.0.borrow().gpu.page_digest(address)
    }

    fn write_page(&mut self, address: PhysicalAddress, content: Content, seed: u64) -> bool {
        let state = &mut *self.0.borrow_mut();
        if let Some(page) = state.documented.page(address, 0) {
            state.written(page, 1);
        }
        state.gpu.write_page(address, content, seed)
    }

    fn lose_power(&mut self) {
        let state = &mut *self.0.borrow_mut();
        state.documented.lose_memory();
        state.gpu.lose_power();
    }

    fn preempt(&mut self, now: Nanoseconds, engine: u32, preemption_fence_id: u64) {
        self.0.borrow_mut().gpu.preempt(now, engine, preemption_fence_id);
    }

    fn reset_engine(&mut self, now: Nanoseconds, engine: u32) {
        self.0.borrow_mut().gpu.reset_engine(now, engine);
    }

    fn reset_from_timeout(&mut self, now: Nanoseconds) {
        let state = &mut *self.0.borrow_mut();
        state.is_resetting = true;
        state.gpu.reset_from_timeout(now);
    }

    fn restart_from_timeout(&mut self, now: Nanoseconds) {
        self.0.borrow_mut().gpu.restart_from_timeout(now);
    }

    fn bytes_decompressed(&self) -> u64 {
        self.0.borrow().gpu.bytes_decompressed()
    }
}
