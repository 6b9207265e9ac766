//! Registrations for trim notifications (RES-40..RES-44).

use crate::{
    event::{Event, error::CreateError, trim::TrimIntervals},
    id::{DeviceId, InvalidHandle, TrimNotificationId},
    manager::VidMm,
};

/// # Trim notifications
impl VidMm {
    /// Registers a device for [`Output::TrimNotification`](crate::Output::TrimNotification) (RES-40).
    ///
    /// A process that is above its budget while memory is short meets these steps (U-30):
    ///
    /// 1. Its devices are asked to trim to the budget: of each group when it comes to that, when the budget moves, and again after
    ///    each minimum interval. A device has 10 ms for a request, and one that it ignores is not repeated.
    /// 2. Its MakeResidents are refused with the same figure, unless they say CantTrimFurther.
    /// 3. Its devices yield, when others need the memory, after a short grace: idle ones first, busy ones when their time
    ///    slice is over. They run in turn (RES-71).
    /// 4. When such a device is resumed, allocations that may be in system memory and have no room in the memory
    ///    segment are placed there, lowest priority first (RES-55).
    /// 5. When pressure falls, these come back by themselves.
    ///
    /// # Errors
    ///
    /// If the device does not exist or is in error.
    #[doc(alias = "D3DKMTRegisterTrimNotification")]
    pub fn register_trim_notification(&mut self, device: DeviceId) -> Result<TrimNotificationId, CreateError> {
        let device_index = self.state.objects.devices.lookup(device)?;
        self.state.objects.check_device(&self.state.moment, device_index)?;
        let notification = self.schedule.register(device_index);
        self.state.objects[device_index].notifications.push(notification.ix());
        self.state.moment.record(|| Event::TrimNotificationRegistered { notification, device });
        self.state.moment.request_poll();
        Ok(notification)
    }

    /// Ends a registration. It ends by itself with its device.
    ///
    /// # Errors
    ///
    /// If the handle names nothing.
    #[doc(alias = "D3DKMTUnregisterTrimNotification")]
    pub fn unregister_trim_notification(&mut self, notification: TrimNotificationId) -> Result<(), InvalidHandle> {
        let index = self.schedule.trim_notifications.lookup(notification)?;
        let device = self.schedule.unregister(index);
        self.state.objects[device].notifications.retain(|&other| other != index);
        self.state.moment.record(|| Event::TrimNotificationUnregistered { notification });
        Ok(())
    }

    /// Sets how often processes are asked to trim (RES-43).
    #[doc(alias = "D3DKMT_VIDMMESCAPETYPE_SET_TRIM_INTERVALS")]
    pub fn set_trim_intervals(&mut self, intervals: TrimIntervals) {
        self.schedule.trim_intervals = intervals;
        let TrimIntervals { min, max, idle } = intervals;
        self.state.moment.record(|| Event::TrimIntervalsSet { min, max, idle });
        self.state.moment.request_poll();
    }
}
