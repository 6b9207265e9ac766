//! Self-scheduled contexts: the queues of owners who run their work themselves, as an application does on Vulkan (D25).
//!
//! To all but these calls such a context is one as any other, on an engine of its own: a use is a submission that requires its
//! device's list as it stands, is handed out once all of it is on its way, and is under way until its owner says that it has ended.
//! But nobody watches that engine, asks it to yield or resets it.

use crate::{
    contract::EngineFence,
    engines::engine::{InFlight, PacketWork},
    event::error::{CreateError, EndUseError, SubmitError},
    id::{ContextId, DeviceId},
    manager::VidMm,
    objects::submission::SubmitDesc,
    recovery::retire,
};

/// # Uses by queues that their owners run
impl VidMm {
    /// Creates a self-scheduled context: a queue that its owner runs. The driver does not hear of it. A device may have several, and
    /// scheduled ones beside them.
    ///
    /// # Errors
    ///
    /// If the device does not exist or is in error, or the driver patches physical addresses into commands.
    pub fn create_self_scheduled_context(&mut self, device: DeviceId) -> Result<ContextId, CreateError> {
        let device_index = self.state.objects.devices.lookup(device)?;
        self.state.objects.check_device(&self.state.moment, device_index)?;
        if self.state.adapter.is_physical() {
            return Err(CreateError::PhysicalAddresses);
        }
        let engine = self.state.engines.add_self_scheduled();
        Ok(self.insert_context(device_index, engine, None))
    }

    /// Announces a use by a self-scheduled context of all that its device's residency list names now. Returns its number within the
    /// device, from 1. [`Output::UseBegun`](crate::Output::UseBegun) says what the owner's queue is to wait for; until
    /// [`end_use`](Self::end_use) nothing that the use requires moves. Uses of a context begin in order.
    ///
    /// # Errors
    ///
    /// If the handle names nothing, the device is in error, the context is a scheduled one, or its queue is full.
    pub fn begin_use(&mut self, context: ContextId) -> Result<u64, SubmitError> {
        self.queue_work(context, SubmitDesc::default(), true)
    }

    /// The owner's queue has ended the work of a use. Queues run in order: earlier uses of the context have ended too.
    ///
    /// The memory that a use requires is not given back before, also where its device is in error or was destroyed: the handle of a
    /// context that went with its device is good for this call until its last use has ended. Only a reset of the adapter ends uses by
    /// itself, as all that runs.
    ///
    /// # Errors
    ///
    /// If the handle names nothing, the use is not under way, or a fence that it waits for was not reached.
    pub fn end_use(&mut self, context: ContextId, number: u64) -> Result<(), EndUseError> {
        let index = self.state.objects.contexts.lookup_withdrawn(context)?;
        let engine = self.state.objects[index].engine;
        let is_use = |packet: &&InFlight| matches!(packet.work, PacketWork::User { context, submission, .. } if (context, submission) == (index, number));
        let in_flight = self.state.engines.engines[engine as usize].in_flight().iter();
        // Work that is to be ended by a reset has not ended by itself.
        let may_end = self.state.objects[index].is_self_scheduled() && self.state.engines.recovery.is_working();
        let ended = { in_flight }.find(is_use).filter(|_| may_end).ok_or(EndUseError::NotUnderWay { number })?;
        let is_awaited = |wait: &&EngineFence| self.state.engines.engines[wait.engine as usize].retired < wait.fence_id;
        if let Some(&wait) = ended.waits.iter().find(is_awaited) {
            return Err(EndUseError::Waits { number, wait });
        }
        let fence_id = ended.fence_id;
        retire::complete_up_to(&mut self.state, &mut self.plans, engine, fence_id);
        self.state.moment.request_poll();
        Ok(())
    }
}
