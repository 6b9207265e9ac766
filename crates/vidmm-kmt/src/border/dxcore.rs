//! DXCore: one factory, one list of adapters, one adapter. The objects are constants, so references to them are not counted.

use std::ffi::c_void;

use super::client::settings;
use crate::status::Status;

/// The functions of an object.
#[repr(transparent)]
struct Table<const N: usize>([*const c_void; N]);

// SAFETY: the pointers are to functions.
unsafe impl<const N: usize> Sync for Table<N> {}

/// An object: a pointer to its functions.
#[repr(transparent)]
struct Object<const N: usize>(&'static Table<N>);

const NAME: &[u8] = b"Intel(R) vidmm model\0";

/// Properties of adapters.
const INSTANCE_LUID: u32 = 0;
const DRIVER_DESCRIPTION: u32 = 2;
const HARDWARE_ID: u32 = 3;
const DEDICATED_ADAPTER_MEMORY: u32 = 7;
const IS_HARDWARE: u32 = 11;

/// The adapter's LUID.
pub const LUID: u64 = 7;

/// Intel's number as a vendor on PCI.
const VENDOR: u32 = 0x8086;

static FACTORY: Object<8> = Object(&Table([
    query_interface as *const c_void,
    reference as *const c_void,
    reference as *const c_void,
    create_adapter_list as *const c_void,
    get_adapter_by_luid as *const c_void,
    is_never as *const c_void,
    not_supported as *const c_void,
    not_supported as *const c_void,
]));

static LIST: Object<9> = Object(&Table([
    query_interface as *const c_void,
    reference as *const c_void,
    reference as *const c_void,
    get_adapter as *const c_void,
    get_adapter_count as *const c_void,
    is_never as *const c_void,
    get_factory as *const c_void,
    not_supported as *const c_void,
    is_never as *const c_void,
]));

static ADAPTER: Object<13> = Object(&Table([
    query_interface as *const c_void,
    reference as *const c_void,
    reference as *const c_void,
    is_always as *const c_void,
    is_always as *const c_void,
    is_property_supported as *const c_void,
    get_property as *const c_void,
    get_property_size as *const c_void,
    is_never as *const c_void,
    not_supported as *const c_void,
    is_never as *const c_void,
    not_supported as *const c_void,
    get_factory as *const c_void,
]));

unsafe extern "C" fn query_interface(this: *mut c_void, _id: *const c_void, object: *mut *mut c_void) -> i32 {
    // SAFETY: the caller's pointer is to a pointer.
    unsafe { object.write(this) };
    0
}

extern "C" fn reference(_this: *mut c_void) -> u32 {
    2
}

extern "C" fn is_always(_this: *mut c_void) -> bool {
    true
}

extern "C" fn is_never(_this: *mut c_void) -> bool {
    false
}

extern "C" fn not_supported(_this: *mut c_void) -> i32 {
    Status::NOT_SUPPORTED.0
}

unsafe fn give<const N: usize>(object: &'static Object<N>, to: *mut *mut c_void) -> i32 {
    // SAFETY: the caller's pointer is to a pointer.
    unsafe { to.write((&raw const *object).cast_mut().cast()) };
    0
}

unsafe extern "C" fn create_adapter_list(
    _this: *mut c_void,
    _number: u32,
    _attributes: *const c_void,
    _id: *const c_void,
    list: *mut *mut c_void,
) -> i32 {
    // SAFETY: as for `give`.
    unsafe { give(&LIST, list) }
}

unsafe extern "C" fn get_adapter_by_luid(
    _this: *mut c_void,
    _luid: *const u64,
    _id: *const c_void,
    adapter: *mut *mut c_void,
) -> i32 {
    // SAFETY: as for `give`.
    unsafe { give(&ADAPTER, adapter) }
}

unsafe extern "C" fn get_adapter(_this: *mut c_void, index: u32, _id: *const c_void, adapter: *mut *mut c_void) -> i32 {
    if index > 0 {
        return Status::INVALID_PARAMETER.0;
    }
    // SAFETY: as for `give`.
    unsafe { give(&ADAPTER, adapter) }
}

unsafe extern "C" fn get_factory(_this: *mut c_void, _id: *const c_void, factory: *mut *mut c_void) -> i32 {
    // SAFETY: as for `give`.
    unsafe { give(&FACTORY, factory) }
}

extern "C" fn get_adapter_count(_this: *mut c_void) -> u32 {
    1
}

/// The bytes of a property; none of an unknown property.
fn property(number: u32) -> Option<Vec<u8>> {
    Some(match number {
        INSTANCE_LUID => LUID.to_le_bytes().to_vec(),
        DRIVER_DESCRIPTION => NAME.to_vec(),
        HARDWARE_ID => [VENDOR, settings().device_id, 0, 0].iter().flat_map(|word| word.to_le_bytes()).collect(),
        DEDICATED_ADAPTER_MEMORY => settings().local_memory.to_le_bytes().to_vec(),
        IS_HARDWARE => vec![1],
        _ => return None,
    })
}

extern "C" fn is_property_supported(_this: *mut c_void, number: u32) -> bool {
    property(number).is_some()
}

unsafe extern "C" fn get_property_size(_this: *mut c_void, number: u32, size: *mut usize) -> i32 {
    let Some(bytes) = property(number) else { return Status::INVALID_PARAMETER.0 };
    // SAFETY: the caller's pointer is to a size.
    unsafe { size.write(bytes.len()) };
    0
}

unsafe extern "C" fn get_property(_this: *mut c_void, number: u32, size: usize, to: *mut u8) -> i32 {
    let Some(bytes) = property(number).filter(|bytes| bytes.len() <= size) else {
        return Status::INVALID_PARAMETER.0;
    };
    // SAFETY: the caller says how much room there is, which was just looked at.
    unsafe { to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    0
}

/// Gives the factory of adapters.
#[unsafe(no_mangle)]
unsafe extern "C" fn DXCoreCreateAdapterFactory(_id: *const c_void, factory: *mut *mut c_void) -> i32 {
    // SAFETY: as for `give`.
    unsafe { give(&FACTORY, factory) }
}
