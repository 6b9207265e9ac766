//! A driver between the core and another driver.

use vidmm::contract::{
    AdapterInfo, AllocationInfo, BuildPagingBuffer, BuildStatus, CreateAllocationError, Kmd, KmdAllocationHandle,
    KmdContextHandle, KmdError, KmdOpenHandle, KmdProcessHandle, NotifyInterrupt, Patch, Render, RenderStatus,
    RootPageTable, SegmentPreference, SegmentSet, SubmitCommand,
};

/// An object of a driver's, by its handle.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum KmdObject {
    /// A process.
    Process(KmdProcessHandle),
    /// A context.
    Context(KmdContextHandle),
    /// An allocation.
    Allocation(KmdAllocationHandle),
    /// An allocation that a process has open.
    Open(KmdOpenHandle),
}

/// A hook between the core and a driver: it encodes paging operations and patches in the driver's place, with or
/// without its help, and may change an interrupt that the driver has decoded.
pub trait KmdHook {
    /// Encodes in the place of `driver`, which is asked if the hook has no answer of its own.
    fn build_paging_buffer(&mut self, driver: &mut dyn Kmd, build: &mut BuildPagingBuffer<'_>) -> BuildStatus {
        driver.build_paging_buffer(build)
    }

    /// Patches in the place of `driver`, which is asked if the hook has no answer of its own.
    fn patch(&mut self, driver: &mut dyn Kmd, patch: &mut Patch<'_>) {
        driver.patch(patch);
    }

    /// Translates in the place of `driver`, which is asked if the hook has no answer of its own.
    fn render(&mut self, driver: &mut dyn Kmd, render: &mut Render<'_>) -> Result<(), RenderStatus> {
        driver.render(render)
    }

    /// Asks whether the driver has memory to create an object for a client, or to open an allocation.
    ///
    /// # Errors
    ///
    /// If it has none: then the driver is not asked.
    fn allocate(&mut self) -> Result<(), KmdError> {
        Ok(())
    }

    /// Returns the interrupt that the core is told in place of `interrupt`, as the driver has decoded it.
    fn interrupt_decoded(&mut self, interrupt: NotifyInterrupt) -> NotifyInterrupt {
        interrupt
    }

    /// Tells that the driver is called: a function without a hook that takes its place, by its name in the documents.
    fn called(&mut self, function: &'static str) {
        let _ = function;
    }

    /// Tells that it has returned.
    fn returned(&mut self) {}

    /// Tells that the driver has described the adapter.
    fn adapter_queried(&mut self, info: &AdapterInfo) {
        let _ = info;
    }

    /// Tells that the driver has created a process.
    fn process_created(&mut self, process: KmdProcessHandle, system_process: bool) {
        let _ = (process, system_process);
    }

    /// Tells that the driver has created an object, or opened an allocation.
    fn object_created(&mut self, object: KmdObject) {
        let _ = object;
    }

    /// Tells that the driver is about to be told to destroy an object, or to close an allocation.
    fn object_ends(&mut self, object: KmdObject) {
        let _ = object;
    }

    /// Tells that a context has another root page table.
    fn root_page_table_set(&mut self, context: KmdContextHandle, root: RootPageTable) {
        let _ = (context, root);
    }

    /// Tells that a DMA buffer is about to be handed to an engine.
    fn command_submitted(&mut self, submit: &SubmitCommand) {
        let _ = submit;
    }
}

/// A driver with a [`KmdHook`] before it. Calls without a hook go to the driver as they are.
pub struct HookedKmd<H> {
    driver: Box<dyn Kmd>,
    hook: H,
}

impl<H: KmdHook> HookedKmd<H> {
    /// Puts `hook` before `driver`.
    pub fn new(driver: Box<dyn Kmd>, hook: H) -> Self {
        Self { driver, hook }
    }

    /// Calls the driver, and tells the hook.
    fn call<T>(&mut self, function: &'static str, act: impl FnOnce(&mut dyn Kmd) -> T) -> T {
        self.hook.called(function);
        let done = act(&mut *self.driver);
        self.hook.returned();
        done
    }

    /// The adapter's own contexts and processes, which it needs to start, are created in any case.
    fn allocate_for(&mut self, client: bool) -> Result<(), KmdError> {
        if client { self.hook.allocate() } else { Ok(()) }
    }
}

impl<H: KmdHook> Kmd for HookedKmd<H> {
    fn build_paging_buffer(&mut self, build: &mut BuildPagingBuffer<'_>) -> BuildStatus {
        self.hook.build_paging_buffer(&mut *self.driver, build)
    }

    fn query_adapter_info(&mut self) -> AdapterInfo {
        let info = self.call("DxgkDdiQueryAdapterInfo", |driver| driver.query_adapter_info());
        self.hook.adapter_queried(&info);
        info
    }

    fn query_paging_process_gpu_va_size(&mut self, physical_adapter_index: u32) -> Option<u32> {
        self.call("DxgkDdiQueryAdapterInfo", |driver| driver.query_paging_process_gpu_va_size(physical_adapter_index))
    }

    fn get_root_page_table_size(&mut self, num_entries: u32) -> Option<u32> {
        self.call("DxgkDdiGetRootPageTableSize", |driver| driver.get_root_page_table_size(num_entries))
    }

    fn create_process(&mut self, system_process: bool) -> Result<KmdProcessHandle, KmdError> {
        self.allocate_for(!system_process)?;
        let process = self.call("DxgkDdiCreateProcess", |driver| driver.create_process(system_process))?;
        self.hook.process_created(process, system_process);
        self.hook.object_created(KmdObject::Process(process));
        Ok(process)
    }

    fn destroy_process(&mut self, process: KmdProcessHandle) {
        self.hook.object_ends(KmdObject::Process(process));
        self.call("DxgkDdiDestroyProcess", |driver| driver.destroy_process(process));
    }

    fn create_context(
        &mut self,
        process: KmdProcessHandle,
        node_ordinal: u32,
        system_context: bool,
    ) -> Result<KmdContextHandle, KmdError> {
        self.allocate_for(!system_context)?;
        let create = |driver: &mut dyn Kmd| driver.create_context(process, node_ordinal, system_context);
        let context = self.call("DxgkDdiCreateContext", create)?;
        self.hook.object_created(KmdObject::Context(context));
        Ok(context)
    }

    fn destroy_context(&mut self, context: KmdContextHandle) {
        self.hook.object_ends(KmdObject::Context(context));
        self.call("DxgkDdiDestroyContext", |driver| driver.destroy_context(context));
    }

    fn create_allocation(&mut self, private_driver_data: &[u8]) -> Result<AllocationInfo, CreateAllocationError> {
        self.hook.allocate().map_err(|KmdError| CreateAllocationError::NoMemory)?;
        let info = self.call("DxgkDdiCreateAllocation", |driver| driver.create_allocation(private_driver_data))?;
        self.hook.object_created(KmdObject::Allocation(info.allocation));
        Ok(info)
    }

    fn destroy_allocation(&mut self, allocation: KmdAllocationHandle) {
        self.hook.object_ends(KmdObject::Allocation(allocation));
        self.call("DxgkDdiDestroyAllocation", |driver| driver.destroy_allocation(allocation));
    }

    fn open_allocation(
        &mut self,
        process: KmdProcessHandle,
        allocation: KmdAllocationHandle,
    ) -> Result<KmdOpenHandle, KmdError> {
        self.hook.allocate()?;
        let open = self.call("DxgkDdiOpenAllocation", |driver| driver.open_allocation(process, allocation))?;
        self.hook.object_created(KmdObject::Open(open));
        Ok(open)
    }

    fn close_allocation(&mut self, allocation: KmdOpenHandle) {
        self.hook.object_ends(KmdObject::Open(allocation));
        self.call("DxgkDdiCloseAllocation", |driver| driver.close_allocation(allocation));
    }

    fn validate_update_allocation_property(
        &mut self,
        allocation: KmdAllocationHandle,
        supported_segment_set: SegmentSet,
        preferred_segment: SegmentPreference,
    ) -> bool {
        self.call("DxgkDdiValidateUpdateAllocationProperty", |driver| {
            driver.validate_update_allocation_property(allocation, supported_segment_set, preferred_segment)
        })
    }

    fn set_root_page_table(&mut self, context: KmdContextHandle, root: RootPageTable) {
        self.hook.root_page_table_set(context, root);
        self.call("DxgkDdiSetRootPageTable", |driver| driver.set_root_page_table(context, root));
    }

    fn submit_command(&mut self, submit: &SubmitCommand, preamble: &mut Vec<u8>) {
        self.hook.command_submitted(submit);
        self.call("DxgkDdiSubmitCommand", |driver| driver.submit_command(submit, preamble));
    }

    fn render(&mut self, render: &mut Render<'_>) -> Result<(), RenderStatus> {
        self.hook.render(&mut *self.driver, render)
    }

    fn patch(&mut self, patch: &mut Patch<'_>) {
        self.hook.patch(&mut *self.driver, patch);
    }

    fn interrupt_routine(&mut self, status: &[u8]) -> Option<NotifyInterrupt> {
        let decoded = self.call("DxgkDdiInterruptRoutine", |driver| driver.interrupt_routine(status))?;
        Some(self.hook.interrupt_decoded(decoded))
    }

    fn query_dependent_engine_group(&mut self, node_ordinal: u32) -> u64 {
        self.call("DxgkDdiQueryDependentEngineGroup", |driver| driver.query_dependent_engine_group(node_ordinal))
    }
}
