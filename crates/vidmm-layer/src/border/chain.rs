//! Devices, and the macro that puts functions into their chains.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError, RwLock};

use ash::vk::{self, Handle};

use super::residency::Residency;
use crate::record::Record;
use crate::tables::Tables;
use crate::types::MemoryTypes;

/// The devices by the key of the loader's table, which all of their queues and command buffers share.
static DEVICES: RwLock<BTreeMap<usize, Arc<Device>>> = RwLock::new(BTreeMap::new());

/// The next functions in the chain: a struct for each file of [`hooks`].
pub type Next = Vec<Box<dyn Any + Send + Sync>>;

/// A device, and the functions behind the layer.
pub struct Device {
    pub get: vk::PFN_vkGetDeviceProcAddr,
    /// Whether a trace or the residency mode watches the device.
    pub is_watched: bool,
    /// The types of memory with the virtual heap, under the residency mode.
    pub types: Option<MemoryTypes>,
    /// The residency of the device, if the device has one.
    pub residency: Option<Residency>,
    next: Next,
    tables: Mutex<Tables>,
}

/// The key of an object that the loader dispatches by.
pub fn key(object: impl Handle) -> usize {
    // SAFETY: the loader's objects begin with a pointer to the table of functions.
    unsafe { *(object.as_raw() as *const usize) }
}

impl Device {
    pub fn new(get: vk::PFN_vkGetDeviceProcAddr, is_watched: bool, next: Next, tables: Tables) -> Self {
        Self { get, is_watched, types: None, residency: None, next, tables: Mutex::new(tables) }
    }

    pub fn add(self, device: vk::Device) {
        let mut devices = DEVICES.write().unwrap_or_else(PoisonError::into_inner);
        devices.insert(key(device), Arc::new(self));
    }

    pub fn remove(device: vk::Device) -> Option<Arc<Self>> {
        DEVICES.write().unwrap_or_else(PoisonError::into_inner).remove(&key(device))
    }

    /// All devices.
    pub fn all() -> Vec<Arc<Self>> {
        let devices = DEVICES.read().unwrap_or_else(PoisonError::into_inner);
        devices.values().map(Arc::clone).collect()
    }

    /// The device of a device, queue or command buffer.
    pub fn of(object: impl Handle) -> Arc<Self> {
        let devices = DEVICES.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(devices.get(&key(object)).expect("a device that the layer is in the chain of"))
    }

    /// The next functions of a file.
    pub fn next<T: 'static>(&self) -> &T {
        self.next.iter().find_map(|next| next.downcast_ref()).expect("a device has those of each file")
    }

    pub fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records what a command of a command buffer does.
    pub fn record(&self, buffer: vk::CommandBuffer, command: impl FnOnce(&mut Record, &Tables)) {
        let mut tables = self.tables();
        // The record is beside the tables while the command looks objects up.
        if let Some((pool, mut record)) = tables.commands.remove(&buffer) {
            command(&mut record, &tables);
            tables.commands.insert(buffer, (pool, record));
        }
    }
}

/// Functions in the chain of a device. Each is `fn FIELD(HANDLE, ARGUMENTS) -> RESULT = NAMES => |device, next| BODY`: `device` is the
/// [`Device`], and `next()` calls the next function of the chain with the arguments of the program.
macro_rules! hooks {
    ($(
        fn $field:ident($first:ident: $handle:ty $(, $argument:ident: $type:ty)* $(,)?) $(-> $result:ty)? =
            $($name:literal),+ => |$device:ident, $next:ident| $body:block
    )*) => {
        /// The next functions in the chain.
        pub struct Next {
            $($field: Option<unsafe extern "system" fn($handle $(, $type)*) $(-> $result)?>,)*
        }

        impl Next {
            pub fn load(find: impl Fn(&std::ffi::CStr) -> ash::vk::PFN_vkVoidFunction) -> Self {
                Self {$(
                    // SAFETY: the function of this name has these arguments.
                    $field: None $(.or_else(|| find($name)))+.map(|next| unsafe {
                        std::mem::transmute::<
                            unsafe extern "system" fn(),
                            unsafe extern "system" fn($handle $(, $type)*) $(-> $result)?,
                        >(next)
                    }),
                )*}
            }
        }

        /// The layer's function for a name.
        pub fn ours(name: &std::ffi::CStr) -> ash::vk::PFN_vkVoidFunction {
            $(if [$($name),+].contains(&name) {
                let ours: unsafe extern "system" fn($handle $(, $type)*) $(-> $result)? = $field;
                // SAFETY: a pointer to a function keeps its value.
                return Some(unsafe {
                    std::mem::transmute::<
                        unsafe extern "system" fn($handle $(, $type)*) $(-> $result)?,
                        unsafe extern "system" fn(),
                    >(ours)
                });
            })*
            None
        }

        $(
            unsafe extern "system" fn $field($first: $handle $(, $argument: $type)*) $(-> $result)? {
                let $device = crate::border::chain::Device::of($first);
                // SAFETY: the arguments are those of the program.
                let $next = || unsafe {
                    ($device.next::<Next>().$field.expect("a function that the device has"))($first $(, $argument)*)
                };
                $body
            }
        )*
    };
}
pub(super) use hooks;

/// Writes the figures of the remaining devices at the end of the program.
pub fn end_at_exit() {
    static ONCE: Once = Once::new();
    extern "C" fn at_exit() {
        for device in Device::all() {
            // A thread that goes on has the lock.
            let state = device.residency.as_ref().and_then(|residency| residency.state.try_lock().ok());
            // A child of `fork` has the parent's devices, which are not the child's to tell of.
            if let Some(mut state) = state.filter(|state| state.process == std::process::id()) {
                state.tell();
            }
        }
    }
    #[cfg(unix)]
    // SAFETY: the library stays loaded.
    ONCE.call_once(|| unsafe {
        libc::atexit(at_exit);
    });
}
