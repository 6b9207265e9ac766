//! Clients in C: the layouts of the header, and the suite, which runs on the library that this test's build has made.

use std::mem::offset_of;
use std::path::{Path, PathBuf};
use std::process::Command;

use vidmm_kmt::{Played, SETTINGS_VARIABLE, Settings, of_process, replay};
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

/// The begin of each client.
const PRELUDE: &str = r#"
    #define _GNU_SOURCE
    #include <fcntl.h>
    #include <pthread.h>
    #include <stdio.h>
    #include <stdlib.h>
    #include <string.h>
    #include <sys/wait.h>
    #include <unistd.h>
    #include <vidmm/d3dkmthk.h>
    static inline D3DKMT_HANDLE open_adapter(void) {
        D3DKMT_OPENADAPTERFROMLUID open = { .AdapterLuid = { 7, 0 } };
        D3DKMTOpenAdapterFromLuid(&open);
        return open.hAdapter;
    }
    static inline D3DKMT_HANDLE make_device(D3DKMT_HANDLE adapter) {
        D3DKMT_CREATEDEVICE create = { .hAdapter = adapter };
        D3DKMTCreateDevice(&create);
        return create.hDevice;
    }
    static inline D3DKMT_CREATEPAGINGQUEUE make_queue(D3DKMT_HANDLE device) {
        D3DKMT_CREATEPAGINGQUEUE create = { .hDevice = device };
        D3DKMTCreatePagingQueue(&create);
        return create;
    }
    static inline D3DKMT_HANDLE make_shared_fence(D3DKMT_HANDLE device, HANDLE *shared) {
        D3DKMT_CREATESYNCHRONIZATIONOBJECT2 create = { .hDevice = device, .Info = { .Type = D3DDDI_MONITORED_FENCE, .Flags = 3 } };
        D3DKMTCreateSynchronizationObject2(&create);
        D3DKMTShareObjects(1, &create.hSyncObject, 0, 0, shared);
        return create.hSyncObject;
    }
"#;

/// Builds a client in a new folder. None without a compiler.
fn built(text: &str) -> Option<(tempfile::TempDir, PathBuf)> {
    let folder = tempfile::tempdir().expect("there is a folder");
    let source = folder.path().join("client.c");
    std::fs::write(&source, format!("{PRELUDE}{text}")).expect("the file is written");
    let program = compile(&source, folder.path())?;
    Some((folder, program))
}

/// A client in C succeeds without a finding, and the log of each process repeats its calls. None without a compiler.
fn runs_and_repeats(text: &str) -> Option<Vec<Played>> {
    let (folder, program) = built(text)?;
    let calls = folder.path().join("calls.jsonl");
    let output = run(&program, &Settings { calls: Some(calls.clone()), ..Settings::default() });
    assert!(output.status.success(), "{output:?}");
    let logs = (1..).map(|process| of_process(&calls, process)).take_while(|log| log.exists());
    let played = logs.map(|log| {
        let played = replay(&log, false, |_| ()).expect("the log is read");
        assert_eq!((&played.difference, &played.findings[..]), (&None, &[][..]));
        played
    });
    Some(played.collect())
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

/// The public part of the header in the shapes of Microsoft's: flags are structs of bits, and each pointer is in a union with a number of
/// 64 bits.
fn in_microsofts_shapes(header: &str) -> String {
    let (public, _) = header.split_once("/* The private data of an allocation").expect("vidmm's own is last");
    let public = public.replace("UINT Flags;", "struct { UINT First : 1; UINT Others : 31; } Flags;");
    let public =
        public.replace("UINT64 Protection;", "union { struct { UINT64 Write : 1; }; UINT64 Value; } Protection;");
    let members = public.split_inclusive(';').map(|piece| {
        let (before, member) = piece.split_at(piece.rfind(['{', '\n']).map_or(0, |at| at + 1));
        let is_pointer = member.contains('*') || member.trim().starts_with("HANDLE ");
        if !is_pointer || member.contains('(') || member.contains("typedef") {
            return piece.to_owned();
        }
        let name = member.trim_end_matches(';').rsplit([' ', '*']).next().unwrap_or_default();
        format!("{before} union {{ UINT64 {name}_Align; {} }} __attribute__((aligned(8)));", member.trim())
    });
    members.collect::<String>() + "#endif\n"
}

/// No package has Microsoft's own header. The environment may say where the header is.
#[test]
fn the_suite_compiles_against_headers_in_microsofts_shapes() {
    let folder = tempfile::tempdir().expect("there is a folder");
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    let include = std::env::var_os("VIDMM_WSL_INCLUDE").map(PathBuf::from).unwrap_or_else(|| {
        let header = std::fs::read_to_string(manifest.join("include/vidmm/d3dkmthk.h")).expect("the header is read");
        let header = in_microsofts_shapes(&header);
        assert!(header.contains("_Align; const D3DKMT_HANDLE *AllocationList; }"));
        std::fs::write(folder.path().join("d3dkmthk.h"), header).expect("the file is written");
        folder.path().to_owned()
    });
    let compiled = Command::new("cc")
        .args(["-DWSL", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-I"])
        .args([&include, &manifest.join("examples/suite.c")])
        .status();
    match compiled {
        Ok(status) => assert!(status.success()),
        Err(error) => assert!(std::env::var_os("VIDMM_REQUIRE_C").is_none(), "there is no C compiler: {error}"),
    }
}

#[test]
fn a_resource_and_a_fence_are_shared_by_descriptors() {
    let text = r#"
        int main(void) {
            D3DKMT_HANDLE adapter = open_adapter(), first = make_device(adapter), second = make_device(adapter);
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
    let text = "
        int main(void) {
            *(UINT64 *)make_queue(make_device(open_adapter())).FenceValueCPUVirtualAddress = 9;
            return 0;
        }";
    let Some((_folder, program)) = built(text) else { return };
    let output = run(&program, &Settings::default());
    let signal = std::os::unix::process::ExitStatusExt::signal(&output.status);
    assert_eq!(signal, Some(libc::SIGSEGV), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("the client wrote the value of a fence"), "{output:?}");
}

/// Before, the log was written out before the program's own ends, and their calls were lost.
#[test]
fn a_call_at_the_end_of_the_program_is_in_the_log() {
    let text = "
        static D3DKMT_HANDLE adapter;
        static void end(void) { D3DKMTCloseAdapter(&(D3DKMT_CLOSEADAPTER){ adapter }); }
        int main(void) {
            atexit(end);
            return !(adapter = open_adapter());
        }";
    let Some((folder, program)) = built(text) else { return };
    let calls = folder.path().join("calls.jsonl");
    assert!(run(&program, &Settings { calls: Some(calls.clone()), ..Settings::default() }).status.success());
    let played = replay(&calls, false, |_| ()).expect("the log is read");
    assert_eq!((played.calls, played.difference), (2, None));
}

/// Four threads make calls at once, and a forked child makes one.
#[test]
fn threads_take_turns_and_a_forked_process_has_no_adapter() {
    let text = r#"
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
            device = make_device(open_adapter());
            D3DKMT_CREATEPAGINGQUEUE paging = make_queue(device);
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
    let Some(played) = runs_and_repeats(text) else { return };
    assert!(played.len() == 1 && played[0].calls >= 4 * 200 * 6);
}

/// The functions that came later than the rest: old creation and destruction, hardware queues, properties, the cache, escapes.
#[test]
fn a_client_of_other_times_runs() {
    let text = r#"
        int main(void) {
            D3DKMT_HANDLE adapter = open_adapter(), device = make_device(adapter);
            D3DKMT_CREATEPAGINGQUEUE paging = make_queue(device);
            struct vidmm_kmt_allocation data = { VIDMM_KMT_ALLOCATION, 65536, 0, 1 };
            static char memory[65536];
            D3DDDI_ALLOCATIONINFO info = { .pSystemMem = memory, .pPrivateDriverData = &data, .PrivateDriverDataSize = sizeof data };
            D3DKMT_CREATEALLOCATION create = { .hDevice = device, .NumAllocations = 1, .pAllocationInfo = &info };
            if (D3DKMTCreateAllocation(&create) < 0 || !info.hAllocation) return 1;
            D3DKMT_LOCK2 lock = { device, info.hAllocation, 0, 0 };
            if (D3DKMTLock2(&lock) < 0 || lock.pData != memory) return 2;
            if (D3DKMTInvalidateCache(&(D3DKMT_INVALIDATECACHE){ device, info.hAllocation, 0, 65536 }) < 0) return 3;
            D3DKMTUnlock2(&(D3DKMT_UNLOCK2){ device, info.hAllocation });
            D3DDDI_UPDATEALLOCPROPERTY update = { .hPagingQueue = paging.hPagingQueue, .hAllocation = info.hAllocation,
                .SupportedSegmentSet = 3, .PreferredSegment = 2 | 1 << 6, .PropertyMaskValue = 2 | 4 };
            if (D3DKMTUpdateAllocationProperty(&update) < 0) return 4;
            update.PropertyMaskValue = 8;
            if (D3DKMTUpdateAllocationProperty(&update) != STATUS_NOT_SUPPORTED) return 5;
            D3DDDI_MAKERESIDENT make = { .hPagingQueue = paging.hPagingQueue, .NumAllocations = 1, .AllocationList = &info.hAllocation };
            D3DDDI_MAPGPUVIRTUALADDRESS map = { .hPagingQueue = paging.hPagingQueue, .hAllocation = info.hAllocation, .Protection = 1 };
            if (D3DKMTMakeResident(&make) < 0 || D3DKMTMapGpuVirtualAddress(&map) < 0) return 6;
            D3DDDI_RESERVEGPUVIRTUALADDRESS reserve = { .hPagingQueue = paging.hPagingQueue, .Size = 1 << 20 };
            if (D3DKMTReserveGpuVirtualAddress(&reserve) < 0) return 16;
            D3DKMT_CREATECONTEXTVIRTUAL context = { .hDevice = device, .Flags = 16 };
            if (D3DKMTCreateContextVirtual(&context) < 0) return 7;
            D3DKMT_CREATEHWQUEUE queue = { .hHwContext = context.hContext };
            if (D3DKMTCreateHwQueue(&queue) < 0 || !queue.hHwQueueProgressFence || !queue.HwQueueProgressFenceGPUVirtualAddress) return 8;
            D3DKMT_HANDLE fence = paging.hSyncObject;
            UINT64 value = map.PagingFenceValue > make.PagingFenceValue ? map.PagingFenceValue : make.PagingFenceValue;
            D3DKMT_SUBMITWAITFORSYNCOBJECTSTOHWQUEUE wait = { queue.hHwQueue, 1, &fence, &value };
            if (D3DKMTSubmitWaitForSyncObjectsToHwQueue(&wait) < 0) return 9;
            D3DKMT_SUBMITCOMMANDTOHWQUEUE submit = { .hHwQueue = queue.hHwQueue, .HwQueueProgressFenceId = 5,
                .CommandBuffer = map.VirtualAddress, .CommandLength = 64 };
            if (D3DKMTSubmitCommandToHwQueue(&submit) < 0) return 10;
            while (*(volatile UINT64 *)queue.HwQueueProgressFenceCPUVirtualAddress != 5);
            D3DKMT_CREATESYNCHRONIZATIONOBJECT2 sync = { .hDevice = device, .Info = { .Type = D3DDDI_MONITORED_FENCE } };
            D3DKMTCreateSynchronizationObject2(&sync);
            value = 3;
            D3DKMT_SUBMITSIGNALSYNCOBJECTSTOHWQUEUE signal = { .BroadcastHwQueueCount = 1, .BroadcastHwQueueArray = &queue.hHwQueue,
                .ObjectCount = 1, .ObjectHandleArray = &sync.hSyncObject, .FenceValueArray = &value };
            if (D3DKMTSubmitSignalSyncObjectsToHwQueue(&signal) < 0) return 11;
            D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU from_cpu = { .hDevice = device, .ObjectCount = 1,
                .ObjectHandleArray = &sync.hSyncObject, .FenceValueArray = &value };
            if (D3DKMTWaitForSynchronizationObjectFromCpu(&from_cpu) < 0) return 12;
            D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION operations[2] = {
                { D3DDDI_UPDATEGPUVIRTUALADDRESS_MAP_PROTECT, .MapProtect = { reserve.VirtualAddress, 65536, info.hAllocation, 0, 0, 1, 7 } },
                { D3DDDI_UPDATEGPUVIRTUALADDRESS_COPY, .Copy = { reserve.VirtualAddress, 65536, reserve.VirtualAddress + 65536 } },
            };
            D3DKMT_UPDATEGPUVIRTUALADDRESS tiles = { .hDevice = device, .hContext = context.hContext, .hFenceObject = sync.hSyncObject,
                .NumOperations = 2, .Operations = operations, .FenceValue = 3 };
            if (D3DKMTUpdateGpuVirtualAddress(&tiles) < 0) return 17;
            value = 4;
            if (D3DKMTWaitForSynchronizationObjectFromCpu(&from_cpu) < 0) return 18;
            submit.CommandBuffer = reserve.VirtualAddress + 65536;
            submit.HwQueueProgressFenceId = 6;
            if (D3DKMTSubmitCommandToHwQueue(&submit) < 0) return 19;
            if (D3DKMTDestroyHwQueue(&(D3DKMT_DESTROYHWQUEUE){ queue.hHwQueue }) < 0) return 13;
            if (D3DKMTEscape(&(D3DKMT_ESCAPE){ .hAdapter = adapter }) != STATUS_NOT_SUPPORTED) return 14;
            D3DKMT_DESTROYALLOCATION destroy = { device, 0, &info.hAllocation, 1 };
            return D3DKMTDestroyAllocation(&destroy) < 0 ? 15 : 0;
        }"#;
    let Some(played) = runs_and_repeats(text) else { return };
    let names = ["Escape of type 0", "UpdateAllocationProperty of properties 0x8"];
    assert!(names.iter().all(|&name| played[0].by_name.get(name).is_some_and(|of| of.refused == 1)), "{:?}", played[0]);
}

/// A process that was forked before the first call has a manager and a log of its own, and its descriptors open nothing elsewhere.
#[test]
fn each_process_has_a_manager_and_a_log() {
    let text = r#"
        int main(void) {
            int to_parent[2], to_child[2], status = 0;
            if (pipe(to_parent) || pipe(to_child)) return 1;
            pid_t child = fork();
            D3DKMT_HANDLE device = make_device(open_adapter());
            if (!device) return 2;
            if (child == 0) {
                HANDLE shared;
                make_shared_fence(device, &shared);
                int descriptor = (int)(uintptr_t)shared;
                D3DKMT_OPENSYNCOBJECTFROMNTHANDLE2 own = { .hNtHandle = shared, .hDevice = device };
                if (D3DKMTOpenSyncObjectFromNtHandle2(&own) < 0) return 4;
                if (write(to_parent[1], &descriptor, sizeof descriptor) < 0) return 5;
                return read(to_child[0], &descriptor, 1) != 1;
            }
            int descriptor;
            char path[64];
            if (read(to_parent[0], &descriptor, sizeof descriptor) < 0) return 6;
            snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)child, descriptor);
            HANDLE shared = (HANDLE)(uintptr_t)open(path, O_RDONLY);
            D3DKMT_OPENSYNCOBJECTFROMNTHANDLE2 fence = { .hNtHandle = shared, .hDevice = device };
            if (D3DKMTOpenSyncObjectFromNtHandle2(&fence) != STATUS_NOT_SUPPORTED) return 7;
            D3DKMT_QUERYRESOURCEINFOFROMNTHANDLE query = { .hNtHandle = shared, .hDevice = device };
            if (D3DKMTQueryResourceInfoFromNtHandle(&query) != STATUS_NOT_SUPPORTED) return 8;
            if (write(to_child[1], &child, 1) != 1) return 9;
            waitpid(child, &status, 0);
            return WEXITSTATUS(status);
        }"#;
    let Some(played) = runs_and_repeats(text) else { return };
    let refused: Vec<_> = played.iter().map(|of| of.by_name.get("A descriptor of another process")).collect();
    assert!(played.len() == 2 && refused.iter().flatten().map(|of| of.refused).eq([2]), "{refused:?}");
}

/// Threads make calls all the time, so that the lock is held at most forks. What a child asks for is refused, and nothing hangs.
#[test]
fn a_fork_at_any_time_neither_hangs_nor_disturbs() {
    let text = r#"
        static D3DKMT_HANDLE device;
        static volatile int is_over;
        static void *run(void *unused) {
            while (!is_over) {
                D3DKMT_CREATEPAGINGQUEUE paging = { .hDevice = device };
                if (D3DKMTCreatePagingQueue(&paging) < 0) _exit(1);
                if (D3DKMTDestroyPagingQueue(&(D3DDDI_DESTROYPAGINGQUEUE){ paging.hPagingQueue }) < 0) _exit(2);
            }
            return unused;
        }
        int main(void) {
            device = make_device(open_adapter());
            HANDLE shared;
            D3DKMT_HANDLE fence = make_shared_fence(device, &shared);
            pthread_t threads[2];
            for (int i = 0; i < 2; i++) pthread_create(&threads[i], 0, run, 0);
            for (int i = 0; i < 50; i++) {
                pid_t child = fork();
                if (child == 0) {
                    UINT64 value = 0;
                    D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU wait = { .hDevice = device, .ObjectCount = 1,
                        .ObjectHandleArray = &fence, .FenceValueArray = &value, .hAsyncEvent = shared };
                    D3DKMT_OPENSYNCOBJECTFROMNTHANDLE2 same = { .hNtHandle = shared, .hDevice = device };
                    if (D3DKMTWaitForSynchronizationObjectFromCpu(&wait) != STATUS_NOT_SUPPORTED) return 3;
                    if (D3DKMTOpenSyncObjectFromNtHandle2(&same) != STATUS_NOT_SUPPORTED) return 4;
                    return D3DKMTDestroyDevice(&(D3DKMT_DESTROYDEVICE){ device }) != STATUS_NOT_SUPPORTED;
                }
                int status = 0;
                waitpid(child, &status, 0);
                if (status) return 5;
            }
            is_over = 1;
            for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
            return D3DKMTDestroyDevice(&(D3DKMT_DESTROYDEVICE){ device });
        }"#;
    let Some(played) = runs_and_repeats(text) else { return };
    assert_eq!(played.len(), 1);
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
        D3DDDI_ALLOCATIONINFO { hAllocation, pSystemMem, pPrivateDriverData, PrivateDriverDataSize, VidPnSourceId, Flags }
        D3DKMT_DESTROYALLOCATION { hDevice, hResource, phAllocationList, AllocationCount }
        D3DDDI_UPDATEALLOCPROPERTY { hPagingQueue, hAllocation, SupportedSegmentSet, PreferredSegment, Flags, PagingFenceValue }
        D3DKMT_INVALIDATECACHE { hDevice, hAllocation, Offset, Length }
        D3DDDI_RESERVEGPUVIRTUALADDRESS { BaseAddress, MinimumAddress, MaximumAddress, Size }
        D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION { OperationType }
        D3DKMT_UPDATEGPUVIRTUALADDRESS { hDevice, hContext, hFenceObject, NumOperations, Operations, Reserved0, Reserved1, FenceValue, Flags }
        D3DKMT_ESCAPE { hAdapter, hDevice, Type, Flags, pPrivateDriverData, PrivateDriverDataSize, hContext }
        D3DKMT_CREATEHWQUEUE { hHwContext, Flags, PrivateDriverDataSize, pPrivateDriverData, hHwQueue, hHwQueueProgressFence,
            HwQueueProgressFenceCPUVirtualAddress, HwQueueProgressFenceGPUVirtualAddress }
        D3DKMT_DESTROYHWQUEUE { hHwQueue }
        D3DKMT_SUBMITCOMMANDTOHWQUEUE { hHwQueue, HwQueueProgressFenceId, CommandBuffer, CommandLength, PrivateDriverDataSize,
            pPrivateDriverData, NumPrimaries, WrittenPrimaries }
        D3DKMT_SUBMITWAITFORSYNCOBJECTSTOHWQUEUE { hHwQueue, ObjectCount, ObjectHandleArray, FenceValueArray }
        D3DKMT_SUBMITSIGNALSYNCOBJECTSTOHWQUEUE { Flags, BroadcastHwQueueCount, BroadcastHwQueueArray, ObjectCount,
            ObjectHandleArray, FenceValueArray }
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
