//! A session: the manager, the model GPU, and the objects of one client process.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use vidmm::{
    AdapterOptions, AllocationId, MemorySegmentGroup, MonitoredFenceId, NumberedEvent, Output, PagingQueueId,
    ProcessId, TrimNotificationId,
};
use vidmm_runtime::{FaultSwitch, Happening, Machine, Occasions, Runtime};
use vidmm_soft::{CostModel, ModelGpuFaults, PacketHits, RENDER_ENGINE, SoftAdapterConfig, machine};

use crate::addresses::Addresses;
use crate::call::{Call, FenceValue, Reply};
use crate::faults::FaultKind;
use crate::handles::{Dead, Handles};
use crate::neighbour::Neighbour;
use crate::objects::{Allocation, AskedToTrim, Kind, Object, Update};
use crate::rules::{Finding, Rule, Suspicion};
use crate::settings::Settings;
use crate::status::Status;

/// Time passes in steps of so many nanoseconds, so that a repeated log polls the manager at the same moments.
pub(crate) const QUANTUM: u64 = 100_000;

/// A wait without a value that anything is to signal, or longer than this, will not end: in nanoseconds.
pub(crate) const PATIENCE: u64 = 60_000_000_000;

/// The answer to a call that was refused.
pub(crate) type Answer = Result<Reply, Reply>;

/// The manager with one client process. Equal calls get equal answers.
pub struct Session {
    pub(crate) runtime: Runtime,
    pub(crate) settings: Settings,
    pub(crate) process: ProcessId,
    pub(crate) handles: Handles<Object>,
    /// Each object behind its owner: a device behind the adapter, all others behind the device.
    pub(crate) owned: BTreeSet<(u32, u32)>,
    pub(crate) addresses: Addresses,
    /// The number of the call that is answered.
    pub(crate) call: u64,
    /// Whether time has passed since the last call.
    is_passing_time: bool,
    /// The values of fences that the client reads.
    pub(crate) values: Vec<u64>,
    /// The slots of values that have changed since they were taken.
    changed: Vec<usize>,
    pub(crate) free_slots: Vec<usize>,
    /// The largest value of each slot that anything is to signal.
    pub(crate) promised: Vec<u64>,
    /// The handles of paging queues.
    pub(crate) queues: BTreeMap<PagingQueueId, u32>,
    /// The paging queues with values that are not shown yet.
    pub(crate) unshown: BTreeSet<u32>,
    pub(crate) slots_of_fences: BTreeMap<MonitoredFenceId, usize>,
    /// The handles of monitored fences by the GPU virtual addresses of the values.
    pub(crate) fences_by_address: BTreeMap<u64, u32>,
    /// Updates of mappings that have not ended.
    pub(crate) updates: Vec<Update>,
    pub(crate) notifications: BTreeMap<TrimNotificationId, u32>,
    /// Notifications to trim that the client has not got: the handle, the flags, the bytes.
    pub(crate) trims: VecDeque<(u32, u32, u64)>,
    pub(crate) findings: Vec<Finding>,
    pub(crate) suspicions: Vec<Suspicion>,
    /// The occasions of each fault.
    pub(crate) faults: Vec<(FaultKind, Occasions)>,
    /// How often each fault has struck. Faults of packets are the GPU's, and not counted.
    pub(crate) struck: BTreeMap<FaultKind, u64>,
    /// The end of a suspension by a fault.
    pub(crate) suspended_until: Option<u64>,
    pub(crate) neighbour: Neighbour,
    /// The allocations whose memory nobody has any more, by the first handle of each; and resources that are gone.
    pub(crate) gone: Vec<u32>,
}

impl Session {
    /// Starts the adapter.
    ///
    /// # Errors
    ///
    /// If the settings ask for an adapter that cannot be.
    pub fn start(settings: Settings) -> Result<Self, String> {
        let config = SoftAdapterConfig {
            local_memory_bytes: settings.local_memory,
            local_memory_cpu_visible: true,
            ..SoftAdapterConfig::with_4kib_pages()
        };
        config.check().map_err(|error| error.to_string())?;
        let (mut faults, fault_switch) = (ModelGpuFaults::default(), FaultSwitch::default());
        let mut occasions = Vec::new();
        for &fault in &settings.faults {
            let of = fault.occasions(settings.seed, &fault_switch);
            match fault.kind {
                FaultKind::Hang => faults.hang_packets.push(PacketHits { engine: RENDER_ENGINE, occasions: of }),
                FaultKind::PageFault => {
                    faults.forge_page_faults.push(PacketHits { engine: RENDER_ENGINE, occasions: of });
                }
                kind => occasions.push((kind, of)),
            }
        }
        let machine = Machine { fault_switch, ..machine(&config, CostModel::default(), faults, None).into() };
        let options = AdapterOptions { events: settings.events, ..AdapterOptions::default() };
        let mut runtime = Runtime::start(options, machine).map_err(|error| error.to_string())?;
        let neighbour = Neighbour::start(&mut runtime, &settings)?;
        let (vidmm, kmd, host) = runtime.borrow();
        if settings.budget.is_some() {
            vidmm.restrict_budget(MemorySegmentGroup::Local, settings.budget);
        }
        let process = vidmm.create_process(kmd, host).map_err(|error| error.to_string())?;
        Ok(Self {
            runtime,
            settings,
            process,
            handles: Handles::default(),
            owned: BTreeSet::new(),
            addresses: Addresses::default(),
            call: 0,
            is_passing_time: false,
            values: Vec::new(),
            changed: Vec::new(),
            free_slots: Vec::new(),
            promised: Vec::new(),
            queues: BTreeMap::new(),
            unshown: BTreeSet::new(),
            slots_of_fences: BTreeMap::new(),
            fences_by_address: BTreeMap::new(),
            updates: Vec::new(),
            notifications: BTreeMap::new(),
            trims: VecDeque::new(),
            findings: Vec::new(),
            suspicions: Vec::new(),
            faults: occasions,
            struck: BTreeMap::new(),
            suspended_until: None,
            neighbour,
            gone: Vec::new(),
        })
    }

    /// Answers a call.
    pub fn call(&mut self, call: &Call) -> Reply {
        self.call += 1;
        self.is_passing_time = false;
        let reply = self.answer(call).unwrap_or_else(|refused| refused);
        self.settle();
        reply
    }

    /// The time in nanoseconds since the start.
    pub fn now(&self) -> u64 {
        self.runtime.now()
    }

    /// The number of calls so far.
    pub fn num_calls(&self) -> u64 {
        self.call
    }

    /// No more calls come. What later calls might have explained is a finding.
    pub fn end(&mut self) {
        for suspicion in std::mem::take(&mut self.suspicions) {
            self.confirm(suspicion);
        }
        self.findings.sort_by_key(|finding| finding.call);
    }

    /// The findings so far.
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// How often each fault of the settings has struck, without faults of packets.
    pub fn struck(&self) -> &BTreeMap<FaultKind, u64> {
        &self.struck
    }

    /// Why the neighbour plays no more, if the neighbour could not go on.
    pub fn neighbour_error(&self) -> Option<&str> {
        self.neighbour.error.as_deref()
    }

    /// The events since the last call of this function.
    pub fn drain_events(&mut self) -> impl Iterator<Item = NumberedEvent> {
        self.runtime.drain_events()
    }

    /// Lets time pass between calls, to the next step. All steps between two calls have one number, and are one [`Call::TimePasses`].
    pub fn idle(&mut self) {
        if !self.is_passing_time {
            self.is_passing_time = true;
            self.call += 1;
        }
        self.pass_time();
    }

    /// The time that has passed since the last call, as a call. Only the first question is answered.
    pub fn take_time_passed(&mut self) -> Option<Call> {
        std::mem::take(&mut self.is_passing_time).then(|| Call::TimePasses { until: self.now() })
    }

    /// Lets time pass to the next step.
    pub(crate) fn pass_time(&mut self) {
        self.pass_time_until(self.now() + 1);
    }

    /// Lets time pass to the first step that is not before a moment.
    pub(crate) fn pass_time_until(&mut self, moment: u64) {
        let until = moment.next_multiple_of(QUANTUM);
        while self.now() < until {
            let arrival = self.neighbour.next_arrival.filter(|&at| at > self.now());
            self.runtime.advance(Some(arrival.map_or(until, |at| at.min(until))));
            self.settle();
        }
        // A neighbour that waits for memory tries again.
        if self.neighbour.play(&mut self.runtime) {
            self.settle();
        }
    }

    /// Whether fences have their values: all, or any.
    pub(crate) fn has_reached(&self, fences: &[FenceValue], any: bool) -> bool {
        let mut reached = fences.iter().map(|of| match self.handles.get(of.fence) {
            Ok(Object::Fence(fence)) => self.values[fence.slot] >= of.value,
            // A fence that is gone keeps nobody waiting.
            _ => true,
        });
        if any { reached.any(|is| is) } else { reached.all(|is| is) }
    }

    /// The value in a slot.
    pub(crate) fn value(&self, slot: usize) -> u64 {
        self.values[slot]
    }

    /// The first handle of an allocation, and the size in bytes; none if the handle names no allocation.
    pub(crate) fn memory_of(&self, allocation: u32) -> Option<(u32, u64)> {
        match self.handles.get(allocation) {
            Ok(Object::Allocation(of)) => Some((of.memory, of.size)),
            _ => None,
        }
    }

    /// The allocations since the last call of this function whose memory nobody has any more, by the first handle of each; and the
    /// resources that are gone.
    pub(crate) fn take_gone(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.gone)
    }

    /// The notifications to trim since the last call of this function: the handle, the flags, the bytes.
    pub(crate) fn take_trims(&mut self) -> Vec<(u32, u32, u64)> {
        self.trims.drain(..).collect()
    }

    /// The values of fences that have changed since the last call of this function, with their slots.
    pub(crate) fn take_changed(&mut self) -> Vec<(usize, u64)> {
        self.changed.drain(..).map(|slot| (slot, self.values[slot])).collect()
    }

    /// Carries out what the manager asks for, and takes the news, until there is no more.
    pub(crate) fn settle(&mut self) {
        loop {
            self.runtime.pump();
            let mut is_neighbour_told = self.neighbour.next_arrival.is_some_and(|at| at <= self.now());
            while let Some(happening) = self.runtime.next_happening() {
                let Happening::Output(output) = happening else { continue };
                is_neighbour_told |= self.neighbour.told(&mut self.runtime, &output);
                self.told(output);
            }
            let has_played = is_neighbour_told && self.neighbour.play(&mut self.runtime);
            let has_shown = self.show_paging_fences();
            if !(has_played | has_shown | self.run_updates() | self.resume()) {
                break;
            }
        }
    }

    fn told(&mut self, output: Output) {
        match output {
            Output::PagingFenceSignaled { queue, value } => {
                if let Some(&handle) = self.queues.get(&queue)
                    && let Ok(Object::PagingQueue(queue)) = self.handles.get_mut(handle)
                {
                    queue.reached = value;
                }
            }
            Output::MonitoredFenceSignaled { fence, value } => {
                if let Some(&slot) = self.slots_of_fences.get(&fence) {
                    self.set_value(slot, value);
                }
            }
            Output::TrimNotification { notification, flags, num_bytes_to_trim, .. } => {
                if let Some(&handle) = self.notifications.get(&notification) {
                    self.ask_to_trim(handle, flags.bits(), num_bytes_to_trim);
                }
            }
            _ => {}
        }
    }

    /// Asks a device to trim, by the handle of a notification.
    pub(crate) fn ask_to_trim(&mut self, handle: u32, flags: u32, num_bytes_to_trim: u64) {
        self.trims.push_back((handle, flags, num_bytes_to_trim));
        let call = self.call;
        if let Ok(Object::TrimNotification(of)) = self.handles.get(handle)
            && let Ok(Object::Device(device)) = self.handles.get_mut(of.device)
            && num_bytes_to_trim > 0
        {
            device.asked_to_trim = Some(AskedToTrim { call, num_bytes_to_trim });
        }
    }

    pub(crate) fn set_value(&mut self, slot: usize, value: u64) {
        self.values[slot] = value;
        self.changed.push(slot);
    }

    /// Records a finding.
    pub(crate) fn find(&mut self, rule: Rule, text: impl Into<String>, since: Option<u64>) {
        self.findings.push(Finding { rule, call: self.call, since, text: text.into() });
    }

    /// A handle that names no object of the kind that the call wants: a finding, and the answer.
    pub(crate) fn dead(&mut self, handle: u32, wanted: &str, dead: Option<Dead>) -> Reply {
        let (text, since) = match dead {
            Some(Dead::RemovedBy(call)) => {
                (format!("{handle:#x} is no {wanted} any more: it was destroyed"), Some(call))
            }
            Some(Dead::Unknown) => (format!("{handle:#x} is no handle; the call wants a {wanted}"), None),
            None => (format!("{handle:#x} is no {wanted}"), self.handles.added_by(handle)),
        };
        self.find(Rule::DeadHandle, text.clone(), since);
        Reply::refused(Status::INVALID_HANDLE, text)
    }

    /// Lets time pass while an answer `is_early`: something is in use, or on the way.
    pub(crate) fn patiently<T, E>(
        &mut self,
        ask: impl Fn(&mut Self) -> Result<T, E>,
        is_early: impl Fn(&Self, &E) -> bool,
    ) -> Result<T, E> {
        let until = self.now() + PATIENCE;
        loop {
            match ask(self) {
                Err(error) if is_early(self, &error) && self.now() < until => self.pass_time(),
                answer => return answer,
            }
        }
    }

    /// The object that a handle names.
    pub(crate) fn object<T: Kind>(&mut self, handle: u32) -> Result<&mut T, Reply> {
        let found = self.handles.get_mut(handle).map(|object| T::of(object).is_some());
        if found != Ok(true) {
            return Err(self.dead(handle, T::NAME, found.err()));
        }
        Ok(self.handles.get_mut(handle).ok().and_then(T::of).expect("it was looked up"))
    }

    /// The manager's allocations of a list of handles, which are handles of a device.
    pub(crate) fn allocation_ids(&mut self, device: u32, handles: &[u32]) -> Result<Vec<AllocationId>, Reply> {
        handles.iter().map(|&handle| self.allocation_of(device, handle).map(|allocation| allocation.id)).collect()
    }

    /// The allocation that a handle of a device names.
    pub(crate) fn allocation_of(&mut self, device: u32, handle: u32) -> Result<&mut Allocation, Reply> {
        let owner = self.object::<Allocation>(handle)?.device;
        if owner != device {
            let text = format!("{handle:#x} is an allocation of {owner:#x}, and the call is for {device:#x}");
            self.find(Rule::DeadHandle, text.clone(), self.handles.added_by(handle));
            return Err(Reply::refused(Status::INVALID_HANDLE, text));
        }
        self.object(handle)
    }

    /// A new handle.
    pub(crate) fn insert(&mut self, object: Object) -> u32 {
        let owner = object.owner();
        let handle = self.handles.insert(object, self.call).expect("the caller has asked for room");
        self.owned.extend(owner.map(|owner| (owner, handle)));
        handle
    }

    /// Whether there is room for so many handles.
    pub(crate) fn room(&self, handles: usize) -> Result<(), Reply> {
        let no_handle = || Reply::refused(Status::INSUFFICIENT_RESOURCES, "there are no more handles");
        (self.handles.room() >= handles).then_some(()).ok_or_else(no_handle)
    }

    /// The objects of a device, or the devices of an adapter.
    pub(crate) fn of_owner(&self, owner: u32) -> impl Iterator<Item = (u32, &Object)> {
        let owned = self.owned.range((owner, 0)..=(owner, u32::MAX));
        owned.filter_map(|&(_, handle)| self.handles.get(handle).ok().map(|object| (handle, object)))
    }

    /// The allocations on the list of a device.
    pub(crate) fn listed(&self, device: u32) -> impl Iterator<Item = (u32, &Allocation)> {
        self.of_owner(device).filter_map(|(handle, object)| match object {
            Object::Allocation(of) if of.count > 0 => Some((handle, of)),
            _ => None,
        })
    }

    /// A slot for a value that the client reads.
    pub(crate) fn new_slot(&mut self, value: u64) -> usize {
        let slot = self.free_slots.pop().unwrap_or_else(|| {
            self.values.push(0);
            self.promised.push(0);
            self.values.len() - 1
        });
        self.promised[slot] = value;
        self.set_value(slot, value);
        slot
    }
}
