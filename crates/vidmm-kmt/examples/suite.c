/*
 * Cases of memory management for authors of user-mode drivers: each prints what the documents say, and what happened. An argument is the
 * name of a case; without arguments all cases run. The exit status is the number of cases that went wrong.
 *
 *     cc suite.c -I../include -L../../../target/debug/deps -lvidmm_kmt -o suite
 */
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <vidmm/d3dkmthk.h>

#define MIB (1ull << 20)
#define MAX 256

static D3DKMT_HANDLE adapter, device, queue, paging_fence, context, fence;
static volatile UINT64 *paging_value, *fence_value;
static UINT64 signalled;
static int wrong;

static void expect(int holds, const char *what)
{
	printf("  %s %s\n", holds ? "ok   " : "WRONG", what);
	wrong |= !holds;
}

static void start(void)
{
	D3DKMT_OPENADAPTERFROMLUID open = { .AdapterLuid = { 7, 0 } };
	D3DKMTOpenAdapterFromLuid(&open);
	adapter = open.hAdapter;
	D3DKMT_CREATEDEVICE d = { .hAdapter = adapter };
	D3DKMTCreateDevice(&d);
	device = d.hDevice;
	D3DKMT_CREATEPAGINGQUEUE q = { .hDevice = device };
	D3DKMTCreatePagingQueue(&q);
	queue = q.hPagingQueue;
	paging_fence = q.hSyncObject;
	paging_value = q.FenceValueCPUVirtualAddress;
	D3DKMT_CREATECONTEXTVIRTUAL c = { .hDevice = device };
	D3DKMTCreateContextVirtual(&c);
	context = c.hContext;
	D3DKMT_CREATESYNCHRONIZATIONOBJECT2 f = { .hDevice = device, .Info = { .Type = D3DDDI_MONITORED_FENCE } };
	D3DKMTCreateSynchronizationObject2(&f);
	fence = f.hSyncObject;
	fence_value = f.Info.MonitoredFence.FenceValueCPUVirtualAddress;
	signalled = 0;
}

static void stop(void)
{
	D3DKMTDestroySynchronizationObject(&(D3DKMT_DESTROYSYNCHRONIZATIONOBJECT){ fence });
	D3DKMTDestroyContext(&(D3DKMT_DESTROYCONTEXT){ context });
	D3DKMTDestroyPagingQueue(&(D3DDDI_DESTROYPAGINGQUEUE){ queue });
	D3DKMTDestroyDevice(&(D3DKMT_DESTROYDEVICE){ device });
	D3DKMTCloseAdapter(&(D3DKMT_CLOSEADAPTER){ adapter });
}

static D3DKMT_HANDLE create(UINT64 size)
{
	struct vidmm_kmt_allocation data = { VIDMM_KMT_ALLOCATION, size, 0, 1 };
	D3DDDI_ALLOCATIONINFO2 info = { .pPrivateDriverData = &data, .PrivateDriverDataSize = sizeof data };
	D3DKMT_CREATEALLOCATION args = { .hDevice = device, .NumAllocations = 1, .pAllocationInfo2 = &info };
	return D3DKMTCreateAllocation2(&args) < 0 ? 0 : info.hAllocation;
}

static NTSTATUS destroy(D3DKMT_HANDLE allocation)
{
	return D3DKMTDestroyAllocation2(&(D3DKMT_DESTROYALLOCATION2){ device, 0, &allocation, 1, 0 });
}

static void wait_for(D3DKMT_HANDLE object, UINT64 value)
{
	D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU args = { .hDevice = device, .ObjectCount = 1, .ObjectHandleArray = &object,
		.FenceValueArray = &value };
	D3DKMTWaitForSynchronizationObjectFromCpu(&args);
}

/* Makes an allocation resident, and waits until it is. */
static NTSTATUS make_resident(D3DKMT_HANDLE allocation, UINT flags, UINT64 *num_bytes_to_trim)
{
	D3DDDI_MAKERESIDENT args = { .hPagingQueue = queue, .NumAllocations = 1, .AllocationList = &allocation, .Flags = flags };
	NTSTATUS status = D3DKMTMakeResident(&args);
	if (num_bytes_to_trim)
		*num_bytes_to_trim = args.NumBytesToTrim;
	if (status == STATUS_PENDING)
		wait_for(paging_fence, args.PagingFenceValue);
	return status;
}

static NTSTATUS evict(D3DKMT_HANDLE allocation)
{
	return D3DKMTEvict(&(D3DKMT_EVICT){ .hDevice = device, .NumAllocations = 1, .AllocationList = &allocation });
}

static D3DGPU_VIRTUAL_ADDRESS map(D3DKMT_HANDLE allocation)
{
	D3DDDI_MAPGPUVIRTUALADDRESS args = { .hPagingQueue = queue, .MinimumAddress = MIB, .MaximumAddress = 1ull << 40,
		.hAllocation = allocation, .Protection = 1 };
	NTSTATUS status = D3DKMTMapGpuVirtualAddress(&args);
	if (status == STATUS_PENDING)
		wait_for(paging_fence, args.PagingFenceValue);
	return status < 0 ? 0 : args.VirtualAddress;
}

static NTSTATUS submit(D3DGPU_VIRTUAL_ADDRESS commands)
{
	D3DKMT_SUBMITCOMMAND args = { .Commands = commands, .CommandLength = 64, .BroadcastContextCount = 1,
		.BroadcastContext = { context } };
	NTSTATUS status = D3DKMTSubmitCommand(&args);
	++signalled;
	D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU signal = { .hContext = context, .ObjectCount = 1, .ObjectHandleArray = &fence,
		.MonitoredFenceValueArray = &signalled };
	D3DKMTSignalSynchronizationObjectFromGpu(&signal);
	return status;
}

static void counts(void)
{
	D3DKMT_HANDLE a = create(MIB);
	expect(make_resident(a, 0, 0) >= 0 && make_resident(a, 0, 0) >= 0, "MakeResident counts (RES-10)");
	expect(evict(a) == STATUS_SUCCESS && evict(a) == STATUS_SUCCESS, "so two Evicts are accepted");
	destroy(a);
}

static void work(void)
{
	D3DKMT_HANDLE a = create(MIB);
	D3DGPU_VIRTUAL_ADDRESS commands = map(a);
	expect(make_resident(a, 0, 0) >= 0 && submit(commands) == STATUS_SUCCESS, "work runs on a resident allocation (RES-05)");
	wait_for(fence, signalled);
	expect(*fence_value == signalled, "the fence's value is in memory that the client reads (SYN-01)");
	evict(a);
	destroy(a);
}

static void trims(void)
{
	D3DKMT_HANDLE listed[MAX], last;
	D3DGPU_VIRTUAL_ADDRESS commands;
	UINT64 to_trim = 0;
	int n = 0;
	for (;;) {
		last = create(16 * MIB);
		if (n == MAX || make_resident(last, 0, &to_trim) == STATUS_NO_MEMORY)
			break;
		listed[n++] = last;
	}
	commands = map(listed[0]);
	submit(commands);
	wait_for(fence, signalled);
	expect(n < MAX && to_trim > 0, "a refusal says how much to trim (RES-13)");
	for (UINT64 freed = 0; n > 0 && freed < to_trim; freed += 16 * MIB)
		evict(listed[--n]), destroy(listed[n]);
	expect(make_resident(last, 0, 0) >= 0, "after the trim the call is accepted");
	evict(last), destroy(last);
	while (n > 0)
		evict(listed[--n]), destroy(listed[n]);
}

static void locks(void)
{
	D3DKMT_HANDLE a = create(MIB);
	D3DKMT_LOCK2 first = { device, a, 0, 0 }, second = { device, a, 0, 0 };
	expect(D3DKMTLock2(&first) == STATUS_SUCCESS, "an allocation that is not resident can be locked (RES-80)");
	memset(first.pData, 0x5a, MIB);
	make_resident(a, 0, 0);
	expect(D3DKMTLock2(&second) == STATUS_SUCCESS && second.pData == first.pData, "the address stays (RES-86)");
	D3DKMTUnlock2(&(D3DKMT_UNLOCK2){ device, a });
	D3DKMTUnlock2(&(D3DKMT_UNLOCK2){ device, a });
	evict(a);
	destroy(a);
}

static void destruction(void)
{
	D3DKMT_HANDLE a = create(MIB);
	D3DGPU_VIRTUAL_ADDRESS commands = map(a);
	make_resident(a, 0, 0);
	submit(commands);
	expect(destroy(a) == STATUS_SUCCESS, "an allocation in use can be destroyed (RES-91)");
	wait_for(fence, signalled);
	expect(*fence_value == signalled, "and the work ends");
}

static void budget(void)
{
	D3DKMT_QUERYVIDEOMEMORYINFO before = { .hAdapter = adapter }, after = { .hAdapter = adapter };
	D3DKMT_HANDLE a = create(4 * MIB);
	D3DKMTQueryVideoMemoryInfo(&before);
	make_resident(a, 0, 0);
	D3DKMTQueryVideoMemoryInfo(&after);
	expect(after.Budget > 0 && after.CurrentUsage == before.CurrentUsage + 4 * MIB, "usage follows MakeResident (RES-51)");
	evict(a);
	destroy(a);
}

static double nanoseconds(struct timespec from)
{
	struct timespec to;
	clock_gettime(CLOCK_MONOTONIC, &to);
	return (to.tv_sec - from.tv_sec) * 1e9 + (to.tv_nsec - from.tv_nsec);
}

static void speed(void)
{
	enum { CALLS = 100000 };
	struct timespec from;
	D3DKMT_HANDLE a = create(MIB);
	make_resident(a, 0, 0);
	clock_gettime(CLOCK_MONOTONIC, &from);
	for (int i = 0; i < CALLS; i++)
		make_resident(a, 0, 0);
	printf("        MakeResident of a resident list: %.0f ns\n", nanoseconds(from) / CALLS);
	clock_gettime(CLOCK_MONOTONIC, &from);
	for (int i = 0; i < CALLS; i++)
		evict(a);
	printf("        Evict: %.0f ns\n", nanoseconds(from) / CALLS);
	evict(a);
	destroy(a);
}

int main(int argc, char **argv)
{
	static const struct { const char *name; void (*run)(void); } cases[] = {
		{ "counts", counts }, { "work", work }, { "trims", trims }, { "locks", locks }, { "destruction", destruction },
		{ "budget", budget }, { "speed", speed },
	};
	int failed = 0;
	for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
		if (argc > 1 ? strcmp(argv[1], cases[i].name) != 0 : cases[i].run == speed)
			continue;
		printf("%s\n", cases[i].name);
		wrong = 0;
		start();
		cases[i].run();
		stop();
		failed += wrong;
	}
	return failed;
}
