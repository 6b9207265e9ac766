//! The loader's audit: a client opens `libdxcore.so` by an absolute path that does not exist here, and the loader is told the library's
//! path instead. The variable `LD_AUDIT` names this library for that; the loader keeps its symbols apart from the program's.

use std::ffi::{CStr, CString, c_char, c_uint};
use std::os::unix::ffi::OsStrExt;
use std::sync::OnceLock;

use super::client::settings;

/// The files that clients ask for: the library of Windows' subsystem, and this library under the name that a build gives.
const NAMES: [&[u8]; 2] = [b"libdxcore.so", b"libvidmm_kmt.so"];

/// The version of the interface with the loader.
#[unsafe(no_mangle)]
extern "C" fn la_version(version: c_uint) -> c_uint {
    version
}

/// The path that the loader looks for, instead of `name`.
#[unsafe(no_mangle)]
unsafe extern "C" fn la_objsearch(name: *const c_char, _cookie: *mut usize, _flag: c_uint) -> *const c_char {
    static LIBRARY: OnceLock<CString> = OnceLock::new();
    // SAFETY: the loader gives a C string.
    let wanted = unsafe { CStr::from_ptr(name) }.to_bytes();
    let file = wanted.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    if !NAMES.contains(&file) {
        return name;
    }
    let library = LIBRARY.get_or_init(|| CString::new(settings().library.as_os_str().as_bytes()).unwrap_or_default());
    if library.is_empty() { name } else { library.as_ptr() }
}
