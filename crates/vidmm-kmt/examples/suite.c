/*
 * Cases of memory management for authors of user-mode drivers: each prints what the documents say, and what happened. Where the documents
 * are silent, a point has a number (U-25), and the case prints whether the system does what vidmm assumes. Arguments are the names of
 * cases; without arguments all cases run but the long ones: speed and exhaustion. The exit status is the number of cases that went wrong.
 *
 *     cc suite.c -I../include -L../../../target/debug/deps -lvidmm_kmt -o suite
 *
 * With -DWSL the file compiles against the header and the library of Windows' subsystem for Linux. The private data of an allocation are
 * the driver's there: another file defines wsl_private_data.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>
#ifdef WSL
#include <d3dkmthk.h>
#ifndef STATUS_SUCCESS
#define STATUS_SUCCESS ((NTSTATUS)0)
#endif
#ifndef STATUS_PENDING
#define STATUS_PENDING ((NTSTATUS)0x103)
#endif
#ifndef STATUS_NO_MEMORY
#define STATUS_NO_MEMORY ((NTSTATUS)0xC0000017)
#endif
#ifndef STATUS_INVALID_PARAMETER
#define STATUS_INVALID_PARAMETER ((NTSTATUS)0xC000000D)
#endif
/* Writes the private data of an allocation of so many bytes. Returns the size of the data, 4096 at most. */
UINT wsl_private_data(UINT64 size, void *data);
#else
#include <vidmm/d3dkmthk.h>
#endif

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

/* The documents are silent. Only vidmm has to do what vidmm assumes. */
static void settle(int holds, const char *point, const char *what)
{
	printf("  %s settles %s: %s\n", holds ? "ok   " : "other", point, what);
#ifndef WSL
	wrong |= !holds;
#endif
}

/* Flags are a number in one header, and a struct of bits in another. */
#define SET_BITS(flags, bits) memcpy(&(flags), &(UINT){ bits }, sizeof(UINT))

static void start(void)
{
	D3DKMT_ADAPTERINFO adapters[16];
	D3DKMT_ENUMADAPTERS2 all = { .NumAdapters = 16, .pAdapters = adapters };
	D3DKMTEnumAdapters2(&all);
	adapter = adapters[0].hAdapter;
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
#ifdef WSL
	char data[4096];
	UINT bytes = wsl_private_data(size, data);
#else
	struct vidmm_kmt_allocation data[1] = { { VIDMM_KMT_ALLOCATION, size, 0, 1 } };
	UINT bytes = sizeof data;
#endif
	D3DDDI_ALLOCATIONINFO2 info = { .pPrivateDriverData = data, .PrivateDriverDataSize = bytes };
	D3DKMT_CREATEALLOCATION args = { .hDevice = device, .NumAllocations = 1, .pAllocationInfo2 = &info };
	return D3DKMTCreateAllocation2(&args) < 0 ? 0 : info.hAllocation;
}

static NTSTATUS destroy(D3DKMT_HANDLE allocation)
{
	D3DKMT_DESTROYALLOCATION2 args = { .hDevice = device, .phAllocationList = &allocation, .AllocationCount = 1 };
	return D3DKMTDestroyAllocation2(&args);
}

static void wait_for(D3DKMT_HANDLE object, UINT64 value)
{
	D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU args = { .hDevice = device, .ObjectCount = 1, .ObjectHandleArray = &object,
		.FenceValueArray = &value };
	D3DKMTWaitForSynchronizationObjectFromCpu(&args);
}

enum { CANT_TRIM_FURTHER = 1 };

/* Makes allocations resident. */
static D3DDDI_MAKERESIDENT ask(const D3DKMT_HANDLE *allocations, UINT count, UINT flags, NTSTATUS *status)
{
	D3DDDI_MAKERESIDENT args = { .hPagingQueue = queue, .NumAllocations = count, .AllocationList = allocations };
	SET_BITS(args.Flags, flags);
	*status = D3DKMTMakeResident(&args);
	return args;
}

/* Makes an allocation resident, and waits until it is. */
static NTSTATUS make_resident(D3DKMT_HANDLE allocation, UINT flags, UINT64 *num_bytes_to_trim)
{
	NTSTATUS status;
	D3DDDI_MAKERESIDENT args = ask(&allocation, 1, flags, &status);
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
		.hAllocation = allocation };
	SET_BITS(args.Protection, 1);
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

static NTSTATUS lock(D3DKMT_HANDLE allocation, void **data)
{
	D3DKMT_LOCK2 args = { .hDevice = device, .hAllocation = allocation };
	NTSTATUS status = D3DKMTLock2(&args);
	*data = args.pData;
	return status;
}

static void unlock(D3DKMT_HANDLE allocation)
{
	D3DKMTUnlock2(&(D3DKMT_UNLOCK2){ .hDevice = device, .hAllocation = allocation });
}

static D3DKMT_QUERYVIDEOMEMORYINFO memory_info(void)
{
	D3DKMT_QUERYVIDEOMEMORYINFO info = { .hAdapter = adapter };
	D3DKMTQueryVideoMemoryInfo(&info);
	return info;
}

static void counts(void)
{
	D3DKMT_HANDLE a = create(MIB), twice[2] = { a, a };
	NTSTATUS status;
	expect(make_resident(a, 0, 0) >= 0 && make_resident(a, 0, 0) >= 0, "MakeResident counts (RES-10)");
	expect(evict(a) == STATUS_SUCCESS && evict(a) == STATUS_SUCCESS, "so two Evicts are accepted");
	D3DDDI_MAKERESIDENT made = ask(twice, 2, 0, &status);
	if (status == STATUS_PENDING)
		wait_for(paging_fence, made.PagingFenceValue);
	settle(evict(a) == STATUS_SUCCESS && evict(a) == STATUS_SUCCESS, "U-26", "a handle that a list has twice counts twice");
	ask(twice, 0, 0, &status);
	settle(status == STATUS_INVALID_PARAMETER, "U-26", "an empty list is an invalid parameter");
	destroy(a);
}

static void residency(void)
{
	D3DKMT_HANDLE a = create(4 * MIB);
	NTSTATUS status;
	D3DDDI_MAKERESIDENT made = ask(&a, 1, 0, &status);
	expect(status == STATUS_PENDING ? made.PagingFenceValue > 0 : status == STATUS_SUCCESS, "PENDING comes with a fence value (RES-11)");
	if (status == STATUS_PENDING)
		wait_for(paging_fence, made.PagingFenceValue);
	expect(status != STATUS_PENDING || *paging_value >= made.PagingFenceValue, "the value is in memory that the client reads (RES-30)");
	made = ask(&a, 1, 0, &status);
	settle(status == STATUS_SUCCESS, "U-25", "a list that is resident is answered with success");
	evict(a), evict(a);
	destroy(a);
}

static void work(void)
{
	D3DKMT_HANDLE a = create(MIB);
	D3DGPU_VIRTUAL_ADDRESS commands = map(a);
	expect(make_resident(a, 0, 0) >= 0 && submit(commands) == STATUS_SUCCESS, "work runs on a resident allocation (RES-05)");
	expect(evict(a) == STATUS_SUCCESS, "an allocation in use can be evicted (RES-20)");
	wait_for(fence, signalled);
	expect(*fence_value == signalled, "the work ends, and the fence's value is in memory that the client reads (SYN-01)");
	settle(make_resident(a, 0, 0) >= 0 && evict(a) == STATUS_SUCCESS, "U-27", "the eviction waits for the work: the device is not in error");
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
	last = create(memory_info().Budget * 2 / MIB * MIB);
	settle(!last || make_resident(last, CANT_TRIM_FURTHER, 0) < 0, "U-24", "CantTrimFurther does not reach twice the budget");
	destroy(last);
}

static void offers(void)
{
	D3DKMT_HANDLE a = create(MIB);
	INT result = -1;
	void *data;
	make_resident(a, 0, 0);
	UINT64 before = memory_info().CurrentUsage;
	D3DKMT_OFFERALLOCATIONS offer = { .hDevice = device, .HandleList = &a, .NumAllocations = 1,
		.Priority = D3DKMT_OFFER_PRIORITY_LOW };
	expect(D3DKMTOfferAllocations(&offer) == STATUS_SUCCESS, "an allocation can be offered (RES-60)");
	settle(memory_info().CurrentUsage < before, "U-37", "an offered allocation is not counted in the usage");
	settle(lock(a, &data) < 0, "U-35", "an offered allocation cannot be locked");
	D3DKMT_RECLAIMALLOCATIONS2 reclaim = { .hPagingQueue = queue, .NumAllocations = 1, .HandleList = &a, .pResults = (void *)&result };
	NTSTATUS status = D3DKMTReclaimAllocations2(&reclaim);
	if (status == STATUS_PENDING)
		wait_for(paging_fence, reclaim.PagingFenceValue);
	expect(status >= 0, "and reclaimed (RES-64)");
	settle(result == 0, "U-37", "without pressure the content is kept");
	evict(a);
	destroy(a);
}

static void locks(void)
{
	D3DKMT_HANDLE a = create(MIB);
	void *first, *second;
	expect(lock(a, &first) == STATUS_SUCCESS, "an allocation that is not resident can be locked (RES-80)");
	memset(first, 0x5a, MIB);
	NTSTATUS status;
	D3DDDI_MAKERESIDENT made = ask(&a, 1, 0, &status);
	settle(status >= 0, "U-40", "MakeResident of a locked allocation is accepted");
	expect(lock(a, &second) == STATUS_SUCCESS && second == first, "the address stays (RES-86)");
	unlock(a), unlock(a);
	if (status == STATUS_PENDING)
		wait_for(paging_fence, made.PagingFenceValue);
	evict(a);
	destroy(a);
}

static void destruction(void)
{
	D3DKMT_HANDLE a = create(MIB), b = create(32 * MIB);
	D3DGPU_VIRTUAL_ADDRESS commands = map(a);
	make_resident(a, 0, 0);
	submit(commands);
	expect(destroy(a) == STATUS_SUCCESS, "an allocation in use can be destroyed (RES-91)");
	wait_for(fence, signalled);
	expect(*fence_value == signalled, "and the work ends");
	NTSTATUS status;
	D3DDDI_MAKERESIDENT made = ask(&b, 1, 0, &status);
	expect(destroy(b) == STATUS_SUCCESS, "an allocation on its way can be destroyed (RES-90)");
	if (status == STATUS_PENDING)
		wait_for(paging_fence, made.PagingFenceValue);
	settle(status != STATUS_PENDING || *paging_value >= made.PagingFenceValue, "U-41", "and the paging fence is signalled all the same");
}

static void addresses(void)
{
	D3DKMT_HANDLE a = create(MIB);
	D3DGPU_VIRTUAL_ADDRESS at = map(a);
	expect(at != 0, "an allocation that is not resident can be mapped (GVA-51)");
	D3DKMT_FREEGPUVIRTUALADDRESS part = { .hAdapter = adapter, .BaseAddress = at + 65536, .Size = 65536 };
	settle(D3DKMTFreeGpuVirtualAddress(&part) == STATUS_SUCCESS, "U-22", "a part of a mapping can be freed");
	settle(at % 65536 == 0, "U-23", "a mapping of 1 MiB is aligned to 64 KiB");
	destroy(a);
}

static void budget(void)
{
	D3DKMT_HANDLE a = create(4 * MIB);
	D3DKMT_QUERYVIDEOMEMORYINFO before = memory_info();
	make_resident(a, 0, 0);
	D3DKMT_QUERYVIDEOMEMORYINFO after = memory_info();
	expect(after.Budget > 0, "there is a budget (RES-51)");
	settle(after.CurrentUsage == before.CurrentUsage + 4 * MIB, "U-33", "the usage follows MakeResident at once");
	expect(after.AvailableForReservation > 0, "there is something to reserve (RES-52)");
	evict(a);
	destroy(a);
}

#ifndef WSL
/* The answer of vidmm's own question is the answer of the next MakeResident. */
static void room(void)
{
	enum { SIZE = 4 * MIB };
	D3DKMT_HANDLE listed[MAX];
	int n = 0, agrees = 1, refused = 0;
	while (n < MAX && !refused) {
		NTSTATUS status;
		listed[n] = create(SIZE);
		struct vidmm_kmt_room asked = { .device = device, .num_allocations = 1, .allocations = &listed[n] };
		NTSTATUS answer = vidmm_kmt_query_room(&asked);
		D3DDDI_MAKERESIDENT made = ask(&listed[n], 1, 0, &status);
		refused = status == STATUS_NO_MEMORY;
		agrees &= refused == (answer == STATUS_NO_MEMORY) && refused == (asked.local_bytes_now < SIZE);
		if (refused)
			agrees &= made.NumBytesToTrim == asked.num_bytes_to_trim && asked.local_bytes_after_trims >= SIZE;
		else if (status == STATUS_PENDING)
			wait_for(paging_fence, made.PagingFenceValue);
		n++;
	}
	expect(agrees, "vidmm_kmt_query_room foretells MakeResident");
	expect(refused, "until MakeResident is refused");
	destroy(listed[--n]);
	while (n-- > 0)
		evict(listed[n]), destroy(listed[n]);
}
#endif

/* Objects until there are no more, all of them destroyed, and one more. */
static void exhaustion(void)
{
	enum { MOST = 1 << 21 };
	static D3DKMT_HANDLE fences[MOST];
	int n = 0;
	for (; n < MOST; n++) {
		D3DKMT_CREATESYNCHRONIZATIONOBJECT2 f = { .hDevice = device, .Info = { .Type = D3DDDI_MONITORED_FENCE } };
		if (D3DKMTCreateSynchronizationObject2(&f) < 0)
			break;
		fences[n] = f.hSyncObject;
	}
	printf("        %d fences exist\n", n);
	int destroyed = 1;
	for (int i = 0; i < n; i++)
		destroyed &= D3DKMTDestroySynchronizationObject(&(D3DKMT_DESTROYSYNCHRONIZATIONOBJECT){ fences[i] }) == STATUS_SUCCESS;
	expect(destroyed, "a full table of handles still destroys every object");
	D3DKMT_HANDLE a = create(MIB);
	expect(a && destroy(a) == STATUS_SUCCESS, "and takes new objects");
}

/* The time of this thread alone, so that other programs do not count. */
static double nanoseconds(struct timespec from)
{
	struct timespec to;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
	return (to.tv_sec - from.tv_sec) * 1e9 + (to.tv_nsec - from.tv_nsec);
}

#define TIMED(what, call) \
	do { \
		enum { CALLS = 100000 }; \
		struct timespec from; \
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from); \
		for (int i = 0; i < CALLS; i++) \
			call; \
		printf("        %s: %.0f ns\n", what, nanoseconds(from) / CALLS); \
	} while (0)

static void speed(void)
{
	D3DKMT_HANDLE a = create(MIB);
	D3DGPU_VIRTUAL_ADDRESS commands = map(a);
	make_resident(a, 0, 0);
	TIMED("MakeResident of a resident list", make_resident(a, 0, 0));
	TIMED("SubmitCommand and SignalSynchronizationObjectFromGpu", submit(commands));
	wait_for(fence, signalled);
	TIMED("Evict", evict(a));
	TIMED("QueryVideoMemoryInfo", memory_info());
	TIMED("CreateAllocation2 and DestroyAllocation2", destroy(create(65536)));
	evict(a);
	destroy(a);
}

int main(int argc, char **argv)
{
	static const struct { const char *name; void (*run)(void); int is_long; } cases[] = {
		{ "counts", counts, 0 }, { "residency", residency, 0 }, { "work", work, 0 }, { "trims", trims, 0 },
		{ "offers", offers, 0 }, { "locks", locks, 0 }, { "destruction", destruction, 0 }, { "addresses", addresses, 0 },
		{ "budget", budget, 0 }, 
#ifndef WSL
		{ "room", room, 0 },
#endif
		{ "exhaustion", exhaustion, 1 }, { "speed", speed, 1 },
	};
	int failed = 0;
	for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
		int is_named = argc == 1 && !cases[i].is_long;
		for (int at = 1; at < argc; at++)
			is_named |= strcmp(argv[at], cases[i].name) == 0;
		if (!is_named)
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
