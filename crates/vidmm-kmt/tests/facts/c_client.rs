//! Clients in C: the layouts of the header, and the suite, which runs on the library that this test's build has made.

use std::mem::offset_of;
use std::path::{Path, PathBuf};
use std::process::Command;

use vidmm_kmt::{SETTINGS_VARIABLE, Settings, replay};
use windows_sys::Wdk::Graphics::Direct3D as wdk;

/// Compiles a program. None without a C compiler, unless the environment asks for one.
fn compile(source: &Path, into: &Path) -> Option<PathBuf> {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = into.join("program");
    let compiled = Command::new("cc")
        .args(["-Wall", "-Wextra", "-Werror", "-I"])
        .arg(manifest.join("include"))
        .arg(source)
        .arg(format!("-L{}", library_folder().display()))
        .args(["-lvidmm_kmt", "-o"])
        .arg(&program)
        .status();
    match compiled {
        Ok(status) => {
            assert!(status.success(), "{} compiles", source.display());
            Some(program)
        }
        Err(error) => {
            assert!(std::env::var_os("VIDMM_REQUIRE_C").is_none(), "there is no C compiler: {error}");
            eprintln!("skipped: there is no C compiler");
            None
        }
    }
}

/// The folder with `libvidmm_kmt.so`: this program's.
fn library_folder() -> PathBuf {
    let program = std::env::current_exe().expect("this program has a path");
    program.parent().expect("the path has a folder").to_owned()
}

fn run(program: &Path, settings: &Settings) -> std::process::Output {
    Command::new(program)
        .env(SETTINGS_VARIABLE, serde_json::to_string(settings).expect("settings are JSON"))
        .env("LD_LIBRARY_PATH", library_folder())
        .output()
        .expect("the program runs")
}

/// A client in C succeeds without a finding, and the log repeats its calls. Returns the number of calls; none without a compiler.
fn runs_and_repeats(text: &str) -> Option<u64> {
    let folder = tempfile::tempdir().expect("there is a folder");
    let source = folder.path().join("client.c");
    std::fs::write(&source, text).expect("the file is written");
    let program = compile(&source, folder.path())?;
    let calls = folder.path().join("calls.jsonl");
    let output = run(&program, &Settings { calls: Some(calls.clone()), ..Settings::default() });
    assert!(output.status.success(), "{output:?}");
    let played = replay(&calls, false, |_| ()).expect("the log is read");
    assert_eq!((played.difference, &played.findings[..]), (None, &[][..]));
    Some(played.calls)
}

#[test]
fn the_suite_in_c_runs_and_its_calls_are_repeated() {
    let folder = tempfile::tempdir().expect("there is a folder");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/suite.c");
    let Some(program) = compile(&source, folder.path()) else { return };
    let calls = folder.path().join("calls.jsonl");
    let settings = Settings { local_memory: 256 << 20, calls: Some(calls.clone()), ..Settings::default() };
    let output = run(&program, &settings);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    let played = replay(&calls, false, |_| ()).expect("the log is read");
    assert_eq!((played.difference, &played.findings[..]), (None, &[][..]));
}

/// The headers of clients in Windows' subsystem declare flags as structs of bits. The real header is used where the environment says where
/// it is.
#[test]
fn the_suite_compiles_against_headers_with_flags_of_bits() {
    let folder = tempfile::tempdir().expect("there is a folder");
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    let include = match std::env::var_os("VIDMM_WSL_INCLUDE") {
        Some(include) => PathBuf::from(include),
        None => {
            let header =
                std::fs::read_to_string(manifest.join("include/vidmm/d3dkmthk.h")).expect("the header is read");
            let (public, _) = header.split_once("/* The private data of an allocation").expect("vidmm's own is last");
            let bits = "struct { UINT First : 1; UINT Others : 31; }";
            let public = public.replace("UINT Flags;", &format!("{bits} Flags;"));
            let public = public
                .replace("UINT64 Protection;", "union { struct { UINT64 Write : 1; }; UINT64 Value; } Protection;");
            std::fs::write(folder.path().join("d3dkmthk.h"), public + "#endif\n").expect("the file is written");
            folder.path().to_owned()
        }
    };
    let compiled = Command::new("cc")
        .args(["-DWSL", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-I"])
        .args([&include, &manifest.join("examples/suite.c")])
        .status();
    assert!(compiled.is_ok_and(|status| status.success()) || std::env::var_os("VIDMM_REQUIRE_C").is_none());
}

#[test]
fn a_resource_and_a_fence_are_shared_by_descriptors() {
    let text = r#"
        #include <string.h>
        #include <unistd.h>
        #include <vidmm/d3dkmthk.h>
        static D3DKMT_HANDLE make_device(D3DKMT_HANDLE adapter) {
            D3DKMT_CREATEDEVICE create = { .hAdapter = adapter };
            D3DKMTCreateDevice(&create);
            return create.hDevice;
        }
        int main(void) {
            D3DKMT_OPENADAPTERFROMLUID open = { .AdapterLuid = { 7, 0 } };
            D3DKMTOpenAdapterFromLuid(&open);
            D3DKMT_HANDLE first = make_device(open.hAdapter), second = make_device(open.hAdapter);
            struct vidmm_kmt_allocation data = { VIDMM_KMT_ALLOCATION, 1 << 20, 2, 1 };
            D3DDDI_ALLOCATIONINFO2 info = { .pPrivateDriverData = &data, .PrivateDriverDataSize = sizeof data };
            D3DKMT_CREATEALLOCATION create = { .hDevice = first, .NumAllocations = 1, .pAllocationInfo2 = &info,
                .Flags = 1 | 2 | 64, .pPrivateRuntimeData = "runtime", .PrivateRuntimeDataSize = 8 };
            if (D3DKMTCreateAllocation2(&create) < 0 || create.hGlobalShare) return 1;
            HANDLE shared;
            if (D3DKMTShareObjects(1, &create.hResource, 0, 0, &shared) < 0) return 2;
            D3DKMT_QUERYRESOURCEINFOFROMNTHANDLE query = { .hDevice = second, .hNtHandle = shared };
            if (D3DKMTQueryResourceInfoFromNtHandle(&query) < 0 || query.NumAllocations != 1) return 3;
            if (query.TotalPrivateDriverDataSize != sizeof data || query.PrivateRuntimeDataSize != 8) return 4;
            char total[64], runtime[8];
            D3DDDI_OPENALLOCATIONINFO2 opened = { 0 };
            D3DKMT_OPENRESOURCEFROMNTHANDLE from = { .hDevice = second, .hNtHandle = shared, .NumAllocations = 1,
                .pOpenAllocationInfo2 = &opened, .pPrivateRuntimeData = runtime, .PrivateRuntimeDataSize = 8,
                .pTotalPrivateDriverDataBuffer = total, .TotalPrivateDriverDataBufferSize = sizeof total };
            if (D3DKMTOpenResourceFromNtHandle(&from) < 0 || !from.hResource) return 5;
            if (opened.PrivateDriverDataSize != sizeof data || memcmp(opened.pPrivateDriverData, &data, sizeof data)) return 6;
            if (strcmp(runtime, "runtime")) return 7;
            D3DKMT_LOCK2 one = { first, info.hAllocation, 0, 0 }, other = { second, opened.hAllocation, 0, 0 };
            if (D3DKMTLock2(&one) < 0 || D3DKMTLock2(&other) < 0 || one.pData != other.pData) return 8;
            D3DKMTUnlock2(&(D3DKMT_UNLOCK2){ first, info.hAllocation });
            D3DKMTUnlock2(&(D3DKMT_UNLOCK2){ second, opened.hAllocation });
            D3DKMTDestroyAllocation2(&(D3DKMT_DESTROYALLOCATION2){ first, create.hResource, 0, 0, 0 });
            ((char *)other.pData)[0] = 1;
            D3DKMTDestroyAllocation2(&(D3DKMT_DESTROYALLOCATION2){ second, from.hResource, 0, 0, 0 });
            D3DKMT_CREATESYNCHRONIZATIONOBJECT2 fence = { .hDevice = first, .Info = { .Type = D3DDDI_MONITORED_FENCE, .Flags = 3 } };
            D3DKMTCreateSynchronizationObject2(&fence);
            if (D3DKMTShareObjects(1, &fence.hSyncObject, 0, 0, &shared) < 0) return 9;
            D3DKMT_OPENSYNCOBJECTFROMNTHANDLE2 same = { .hDevice = second, .hNtHandle = shared };
            if (D3DKMTOpenSyncObjectFromNtHandle2(&same) < 0) return 10;
            if (same.MonitoredFence.FenceValueCPUVirtualAddress != fence.Info.MonitoredFence.FenceValueCPUVirtualAddress) return 11;
            int pipes[2];
            if (pipe(pipes)) return 12;
            same.hNtHandle = (HANDLE)(uintptr_t)pipes[0];
            return D3DKMTOpenSyncObjectFromNtHandle2(&same) >= 0;
        }"#;
    runs_and_repeats(text);
}

#[test]
fn a_client_that_writes_a_fence_is_named_and_dies_at_the_line() {
    let folder = tempfile::tempdir().expect("there is a folder");
    let source = folder.path().join("writer.c");
    let text = "#include <vidmm/d3dkmthk.h>
        int main(void) {
            D3DKMT_OPENADAPTERFROMLUID open = { .AdapterLuid = { 7, 0 } };
            D3DKMTOpenAdapterFromLuid(&open);
            D3DKMT_CREATEDEVICE device = { .hAdapter = open.hAdapter };
            D3DKMTCreateDevice(&device);
            D3DKMT_CREATEPAGINGQUEUE queue = { .hDevice = device.hDevice };
            D3DKMTCreatePagingQueue(&queue);
            *(UINT64 *)queue.FenceValueCPUVirtualAddress = 9;
            return 0;
        }";
    std::fs::write(&source, text).expect("the file is written");
    let Some(program) = compile(&source, folder.path()) else { return };
    let output = run(&program, &Settings::default());
    let signal = std::os::unix::process::ExitStatusExt::signal(&output.status);
    assert_eq!(signal, Some(libc::SIGSEGV), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("the client wrote the value of a fence"), "{output:?}");
}

/// Before, the log was written out before the program's own ends, and their calls were lost.
#[test]
fn a_call_at_the_end_of_the_program_is_in_the_log() {
    let folder = tempfile::tempdir().expect("there is a folder");
    let source = folder.path().join("end.c");
    let text = "#include <stdlib.h>
        #include <vidmm/d3dkmthk.h>
        static D3DKMT_OPENADAPTERFROMLUID adapter = { .AdapterLuid = { 7, 0 } };
        static void end(void) { D3DKMTCloseAdapter(&(D3DKMT_CLOSEADAPTER){ adapter.hAdapter }); }
        int main(void) {
            atexit(end);
            return D3DKMTOpenAdapterFromLuid(&adapter);
        }";
    std::fs::write(&source, text).expect("the file is written");
    let Some(program) = compile(&source, folder.path()) else { return };
    let calls = folder.path().join("calls.jsonl");
    assert!(run(&program, &Settings { calls: Some(calls.clone()), ..Settings::default() }).status.success());
    let played = replay(&calls, false, |_| ()).expect("the log is read");
    assert_eq!((played.calls, played.difference), (2, None));
}

/// Four threads make calls at once, and a forked child makes one.
#[test]
fn threads_take_turns_and_a_forked_process_has_no_adapter() {
    let text = r#"
        #include <pthread.h>
        #include <sys/wait.h>
        #include <unistd.h>
        #include <vidmm/d3dkmthk.h>
        static D3DKMT_HANDLE device, queue;
        static void *run(void *unused) {
            for (int i = 0; i < 200; i++) {
                struct vidmm_kmt_allocation data = { VIDMM_KMT_ALLOCATION, 1 << 20, 2, 1 };
                D3DDDI_ALLOCATIONINFO2 info = { .pPrivateDriverData = &data, .PrivateDriverDataSize = sizeof data };
                D3DKMT_CREATEALLOCATION create = { .hDevice = device, .NumAllocations = 1, .pAllocationInfo2 = &info };
                if (D3DKMTCreateAllocation2(&create) < 0) _exit(3);
                D3DDDI_MAKERESIDENT make = { .hPagingQueue = queue, .NumAllocations = 1, .AllocationList = &info.hAllocation };
                if (D3DKMTMakeResident(&make) < 0) _exit(4);
                D3DKMT_LOCK2 lock = { device, info.hAllocation, 0, 0 };
                if (D3DKMTLock2(&lock) < 0) _exit(5);
                ((char *)lock.pData)[i] = 1;
                D3DKMTUnlock2(&(D3DKMT_UNLOCK2){ device, info.hAllocation });
                D3DKMT_EVICT evict = { .hDevice = device, .NumAllocations = 1, .AllocationList = &info.hAllocation };
                if (D3DKMTEvict(&evict) < 0) _exit(6);
                D3DKMTDestroyAllocation2(&(D3DKMT_DESTROYALLOCATION2){ device, 0, &info.hAllocation, 1, 0 });
            }
            return unused;
        }
        int main(void) {
            D3DKMT_OPENADAPTERFROMLUID open = { .AdapterLuid = { 7, 0 } };
            D3DKMTOpenAdapterFromLuid(&open);
            D3DKMT_CREATEDEVICE create = { .hAdapter = open.hAdapter };
            D3DKMTCreateDevice(&create);
            device = create.hDevice;
            D3DKMT_CREATEPAGINGQUEUE paging = { .hDevice = device };
            D3DKMTCreatePagingQueue(&paging);
            queue = paging.hPagingQueue;
            pthread_t threads[4];
            for (int i = 0; i < 4; i++) pthread_create(&threads[i], 0, run, 0);
            for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
            pid_t child = fork();
            if (child == 0) _exit(D3DKMTCreatePagingQueue(&paging) < 0 ? 7 : 8);
            int status = 0;
            waitpid(child, &status, 0);
            return WEXITSTATUS(status) - 7;
        }"#;
    let Some(calls) = runs_and_repeats(text) else { return };
    assert!(calls >= 4 * 200 * 6);
}

/// Sizes and offsets of the header, by C's expressions, and those of the Windows metadata.
#[test]
fn the_layouts_are_those_of_the_windows_metadata() {
    macro_rules! layouts {
        ($($structure:ident { $($field:ident),* })*) => {
            vec![$(
                (format!("sizeof({})", stringify!($structure)), size_of::<wdk::$structure>()),
                $((
                    format!("__builtin_offsetof({}, {})", stringify!($structure), stringify!($field)),
                    offset_of!(wdk::$structure, $field),
                ),)*
            )*]
        };
    }
    let layouts = layouts! {
        D3DKMT_OPENADAPTERFROMLUID { AdapterLuid, hAdapter }
        D3DKMT_CREATEDEVICE { Flags, hDevice, pCommandBuffer, PatchLocationListSize }
        D3DKMT_CREATEPAGINGQUEUE { hDevice, Priority, hPagingQueue, hSyncObject, FenceValueCPUVirtualAddress }
        D3DKMT_CREATECONTEXTVIRTUAL { hDevice, NodeOrdinal, Flags, pPrivateDriverData, hContext }
        D3DDDI_ALLOCATIONINFO2 { hAllocation, pPrivateDriverData, PrivateDriverDataSize, Flags, GpuVirtualAddress, Reserved }
        D3DKMT_CREATEALLOCATION { hDevice, hResource, NumAllocations, Flags, hPrivateRuntimeResourceHandle }
        D3DKMT_DESTROYALLOCATION2 { hDevice, hResource, phAllocationList, AllocationCount, Flags }
        D3DDDI_MAPGPUVIRTUALADDRESS { BaseAddress, hAllocation, SizeInPages, Protection, VirtualAddress, PagingFenceValue }
        D3DDDI_MAKERESIDENT { hPagingQueue, NumAllocations, AllocationList, Flags, PagingFenceValue, NumBytesToTrim }
        D3DKMT_EVICT { hDevice, NumAllocations, AllocationList, Flags, NumBytesToTrim }
        D3DKMT_LOCK2 { hDevice, hAllocation, Flags, pData }
        D3DKMT_UNLOCK2 { hDevice, hAllocation }
        D3DKMT_SUBMITCOMMAND { Commands, CommandLength, BroadcastContext, pPrivateDriverData, PrivateDriverDataSize, HistoryBufferArray }
        D3DDDI_SYNCHRONIZATIONOBJECTINFO2 { Type, Flags, SharedHandle }
        D3DKMT_CREATESYNCHRONIZATIONOBJECT2 { hDevice, Info, hSyncObject }
        D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU { ObjectCount, ObjectHandleArray, FenceValueArray, hAsyncEvent, Flags }
        D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMGPU { hContext, ObjectCount, ObjectHandleArray }
        D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU { hContext, ObjectCount, ObjectHandleArray }
        D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMCPU { hDevice, ObjectCount, FenceValueArray, Flags }
        D3DKMT_ENUMADAPTERS2 { NumAdapters, pAdapters }
        D3DKMT_FREEGPUVIRTUALADDRESS { hAdapter, BaseAddress, Size }
        D3DKMT_OFFERALLOCATIONS { hDevice, pResources, HandleList, NumAllocations, Priority, Flags }
        D3DKMT_RECLAIMALLOCATIONS2 { hPagingQueue, NumAllocations, pResources, HandleList, PagingFenceValue }
        D3DDDI_OPENALLOCATIONINFO2 { hAllocation, pPrivateDriverData, PrivateDriverDataSize, GpuVirtualAddress, Reserved }
        D3DKMT_QUERYRESOURCEINFOFROMNTHANDLE { hDevice, hNtHandle, PrivateRuntimeDataSize, NumAllocations }
        D3DKMT_OPENRESOURCEFROMNTHANDLE { hDevice, hNtHandle, NumAllocations, pOpenAllocationInfo2, hResource, hSyncObject }
        D3DKMT_OPENSYNCOBJECTFROMNTHANDLE2 { hNtHandle, hDevice, Flags, hSyncObject }
        D3DKMT_QUERYVIDEOMEMORYINFO { hAdapter, MemorySegmentGroup, Budget, CurrentUsage, PhysicalAdapterIndex }
    };
    let folder = tempfile::tempdir().expect("there is a folder");
    let source = folder.path().join("layouts.c");
    let mut text = "#include <vidmm/d3dkmthk.h>\nint main(void) { return 0; }\n".to_owned();
    for (expression, bytes) in layouts {
        text += &format!("_Static_assert({expression} == {bytes}, \"{expression}\");\n");
    }
    std::fs::write(&source, text).expect("the file is written");
    compile(&source, folder.path());
}
