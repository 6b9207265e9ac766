/*
 * The functions of D3DKMT that vidmm stands in for, and their structs, for clients in C on Linux. Names and layouts are those of
 * d3dkmthk.h and d3dukmdt.h: a client compiles with either header. A test compares each layout with the Windows metadata.
 */
#ifndef VIDMM_D3DKMTHK_H
#define VIDMM_D3DKMTHK_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef int32_t NTSTATUS;
typedef uint32_t UINT;
typedef int32_t INT;
typedef uint64_t UINT64;
typedef uint64_t D3DGPU_VIRTUAL_ADDRESS;
typedef uint32_t D3DKMT_HANDLE;
typedef void *HANDLE;

#define STATUS_SUCCESS ((NTSTATUS)0)
#define STATUS_PENDING ((NTSTATUS)0x103)
#define STATUS_INVALID_HANDLE ((NTSTATUS)0xC0000008)
#define STATUS_INVALID_PARAMETER ((NTSTATUS)0xC000000D)
#define STATUS_NO_MEMORY ((NTSTATUS)0xC0000017)
#define STATUS_NOT_SUPPORTED ((NTSTATUS)0xC00000BB)
#define STATUS_INSUFFICIENT_RESOURCES ((NTSTATUS)0xC000009A)
#define STATUS_DEVICE_REMOVED ((NTSTATUS)0xC00002B6)

typedef struct _LUID { uint32_t LowPart; int32_t HighPart; } LUID;

typedef struct _D3DKMT_OPENADAPTERFROMLUID { LUID AdapterLuid; D3DKMT_HANDLE hAdapter; } D3DKMT_OPENADAPTERFROMLUID;
typedef struct _D3DKMT_CLOSEADAPTER { D3DKMT_HANDLE hAdapter; } D3DKMT_CLOSEADAPTER;

typedef struct _D3DKMT_CREATEDEVICE {
	union { D3DKMT_HANDLE hAdapter; void *pAdapter; };
	UINT Flags;
	D3DKMT_HANDLE hDevice;
	void *pCommandBuffer;
	UINT CommandBufferSize;
	void *pAllocationList;
	UINT AllocationListSize;
	void *pPatchLocationList;
	UINT PatchLocationListSize;
} D3DKMT_CREATEDEVICE;
typedef struct _D3DKMT_DESTROYDEVICE { D3DKMT_HANDLE hDevice; } D3DKMT_DESTROYDEVICE;

typedef struct _D3DKMT_CREATEPAGINGQUEUE {
	D3DKMT_HANDLE hDevice;
	INT Priority;
	D3DKMT_HANDLE hPagingQueue;
	D3DKMT_HANDLE hSyncObject;
	void *FenceValueCPUVirtualAddress;
	UINT PhysicalAdapterIndex;
} D3DKMT_CREATEPAGINGQUEUE;
typedef struct _D3DDDI_DESTROYPAGINGQUEUE { D3DKMT_HANDLE hPagingQueue; } D3DDDI_DESTROYPAGINGQUEUE;

typedef struct _D3DKMT_CREATECONTEXTVIRTUAL {
	D3DKMT_HANDLE hDevice;
	UINT NodeOrdinal;
	UINT EngineAffinity;
	UINT Flags;
	void *pPrivateDriverData;
	UINT PrivateDriverDataSize;
	INT ClientHint;
	D3DKMT_HANDLE hContext;
} D3DKMT_CREATECONTEXTVIRTUAL;
typedef struct _D3DKMT_DESTROYCONTEXT { D3DKMT_HANDLE hContext; } D3DKMT_DESTROYCONTEXT;

typedef struct _D3DDDI_ALLOCATIONINFO2 {
	D3DKMT_HANDLE hAllocation;
	union { HANDLE hSection; const void *pSystemMem; };
	void *pPrivateDriverData;
	UINT PrivateDriverDataSize;
	UINT VidPnSourceId;
	UINT Flags;
	D3DGPU_VIRTUAL_ADDRESS GpuVirtualAddress;
	union { UINT Priority; uintptr_t Unused; };
	uintptr_t Reserved[5];
} D3DDDI_ALLOCATIONINFO2;

typedef struct _D3DDDI_ALLOCATIONINFO {
	D3DKMT_HANDLE hAllocation;
	const void *pSystemMem;
	void *pPrivateDriverData;
	UINT PrivateDriverDataSize;
	UINT VidPnSourceId;
	UINT Flags;
} D3DDDI_ALLOCATIONINFO;

typedef struct _D3DKMT_CREATEALLOCATION {
	D3DKMT_HANDLE hDevice;
	D3DKMT_HANDLE hResource;
	D3DKMT_HANDLE hGlobalShare;
	const void *pPrivateRuntimeData;
	UINT PrivateRuntimeDataSize;
	const void *pPrivateDriverData;
	UINT PrivateDriverDataSize;
	UINT NumAllocations;
	union { D3DDDI_ALLOCATIONINFO *pAllocationInfo; D3DDDI_ALLOCATIONINFO2 *pAllocationInfo2; };
	UINT Flags;
	HANDLE hPrivateRuntimeResourceHandle;
} D3DKMT_CREATEALLOCATION;

typedef struct _D3DKMT_DESTROYALLOCATION2 {
	D3DKMT_HANDLE hDevice;
	D3DKMT_HANDLE hResource;
	const D3DKMT_HANDLE *phAllocationList;
	UINT AllocationCount;
	UINT Flags;
} D3DKMT_DESTROYALLOCATION2;

typedef struct _D3DKMT_DESTROYALLOCATION {
	D3DKMT_HANDLE hDevice;
	D3DKMT_HANDLE hResource;
	const D3DKMT_HANDLE *phAllocationList;
	UINT AllocationCount;
} D3DKMT_DESTROYALLOCATION;

/* The masks of properties: 2 the supported segments, 4 the preferred segments. */
typedef struct _D3DDDI_UPDATEALLOCPROPERTY {
	D3DKMT_HANDLE hPagingQueue;
	D3DKMT_HANDLE hAllocation;
	UINT SupportedSegmentSet;
	UINT PreferredSegment;
	UINT Flags;
	UINT64 PagingFenceValue;
	UINT PropertyMaskValue;
} D3DDDI_UPDATEALLOCPROPERTY;

typedef struct _D3DKMT_INVALIDATECACHE {
	D3DKMT_HANDLE hDevice;
	D3DKMT_HANDLE hAllocation;
	uintptr_t Offset;
	uintptr_t Length;
} D3DKMT_INVALIDATECACHE;

typedef struct _D3DKMT_ESCAPE {
	D3DKMT_HANDLE hAdapter;
	D3DKMT_HANDLE hDevice;
	INT Type;
	UINT Flags;
	void *pPrivateDriverData;
	UINT PrivateDriverDataSize;
	D3DKMT_HANDLE hContext;
} D3DKMT_ESCAPE;

typedef struct _D3DKMT_CREATEHWQUEUE {
	D3DKMT_HANDLE hHwContext;
	UINT Flags;
	UINT PrivateDriverDataSize;
	void *pPrivateDriverData;
	D3DKMT_HANDLE hHwQueue;
	D3DKMT_HANDLE hHwQueueProgressFence;
	void *HwQueueProgressFenceCPUVirtualAddress;
	D3DGPU_VIRTUAL_ADDRESS HwQueueProgressFenceGPUVirtualAddress;
} D3DKMT_CREATEHWQUEUE;
typedef struct _D3DKMT_DESTROYHWQUEUE { D3DKMT_HANDLE hHwQueue; } D3DKMT_DESTROYHWQUEUE;

typedef struct _D3DKMT_SUBMITCOMMANDTOHWQUEUE {
	D3DKMT_HANDLE hHwQueue;
	UINT64 HwQueueProgressFenceId;
	D3DGPU_VIRTUAL_ADDRESS CommandBuffer;
	UINT CommandLength;
	UINT PrivateDriverDataSize;
	void *pPrivateDriverData;
	UINT NumPrimaries;
	const D3DKMT_HANDLE *WrittenPrimaries;
} D3DKMT_SUBMITCOMMANDTOHWQUEUE;

typedef struct _D3DKMT_SUBMITWAITFORSYNCOBJECTSTOHWQUEUE {
	D3DKMT_HANDLE hHwQueue;
	UINT ObjectCount;
	const D3DKMT_HANDLE *ObjectHandleArray;
	const UINT64 *FenceValueArray;
} D3DKMT_SUBMITWAITFORSYNCOBJECTSTOHWQUEUE;

typedef struct _D3DKMT_SUBMITSIGNALSYNCOBJECTSTOHWQUEUE {
	UINT Flags;
	UINT BroadcastHwQueueCount;
	const D3DKMT_HANDLE *BroadcastHwQueueArray;
	UINT ObjectCount;
	const D3DKMT_HANDLE *ObjectHandleArray;
	const UINT64 *FenceValueArray;
} D3DKMT_SUBMITSIGNALSYNCOBJECTSTOHWQUEUE;

typedef struct _D3DDDI_MAPGPUVIRTUALADDRESS {
	D3DKMT_HANDLE hPagingQueue;
	D3DGPU_VIRTUAL_ADDRESS BaseAddress;
	D3DGPU_VIRTUAL_ADDRESS MinimumAddress;
	D3DGPU_VIRTUAL_ADDRESS MaximumAddress;
	D3DKMT_HANDLE hAllocation;
	UINT64 OffsetInPages;
	UINT64 SizeInPages;
	UINT64 Protection;
	UINT64 DriverProtection;
	UINT Reserved0;
	UINT64 Reserved1;
	D3DGPU_VIRTUAL_ADDRESS VirtualAddress;
	UINT64 PagingFenceValue;
} D3DDDI_MAPGPUVIRTUALADDRESS;

typedef struct _D3DDDI_RESERVEGPUVIRTUALADDRESS {
	union { D3DKMT_HANDLE hPagingQueue; D3DKMT_HANDLE hAdapter; };
	D3DGPU_VIRTUAL_ADDRESS BaseAddress;
	D3DGPU_VIRTUAL_ADDRESS MinimumAddress;
	D3DGPU_VIRTUAL_ADDRESS MaximumAddress;
	UINT64 Size;
	UINT ReservationType;
	UINT64 DriverProtection;
	D3DGPU_VIRTUAL_ADDRESS VirtualAddress;
	UINT64 PagingFenceValue;
} D3DDDI_RESERVEGPUVIRTUALADDRESS;

#define D3DDDI_UPDATEGPUVIRTUALADDRESS_MAP 0
#define D3DDDI_UPDATEGPUVIRTUALADDRESS_UNMAP 1
#define D3DDDI_UPDATEGPUVIRTUALADDRESS_COPY 2
#define D3DDDI_UPDATEGPUVIRTUALADDRESS_MAP_PROTECT 3

typedef struct _D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION {
	INT OperationType;
	union {
		struct {
			D3DGPU_VIRTUAL_ADDRESS BaseAddress;
			UINT64 SizeInBytes;
			D3DKMT_HANDLE hAllocation;
			UINT64 AllocationOffsetInBytes;
			UINT64 AllocationSizeInBytes;
		} Map;
		struct {
			D3DGPU_VIRTUAL_ADDRESS BaseAddress;
			UINT64 SizeInBytes;
			D3DKMT_HANDLE hAllocation;
			UINT64 AllocationOffsetInBytes;
			UINT64 AllocationSizeInBytes;
			UINT64 Protection;
			UINT64 DriverProtection;
		} MapProtect;
		struct {
			D3DGPU_VIRTUAL_ADDRESS BaseAddress;
			UINT64 SizeInBytes;
			UINT64 Protection;
		} Unmap;
		struct {
			D3DGPU_VIRTUAL_ADDRESS SourceAddress;
			UINT64 SizeInBytes;
			D3DGPU_VIRTUAL_ADDRESS DestAddress;
		} Copy;
	};
} D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION;

typedef struct _D3DKMT_UPDATEGPUVIRTUALADDRESS {
	D3DKMT_HANDLE hDevice;
	D3DKMT_HANDLE hContext;
	D3DKMT_HANDLE hFenceObject;
	UINT NumOperations;
	D3DDDI_UPDATEGPUVIRTUALADDRESS_OPERATION *Operations;
	uintptr_t Reserved0;
	UINT64 Reserved1;
	UINT64 FenceValue;
	UINT Flags;
} D3DKMT_UPDATEGPUVIRTUALADDRESS;

typedef struct _D3DDDI_MAKERESIDENT {
	D3DKMT_HANDLE hPagingQueue;
	UINT NumAllocations;
	const D3DKMT_HANDLE *AllocationList;
	const UINT *PriorityList;
	UINT Flags;
	UINT64 PagingFenceValue;
	UINT64 NumBytesToTrim;
} D3DDDI_MAKERESIDENT;

typedef struct _D3DKMT_EVICT {
	D3DKMT_HANDLE hDevice;
	UINT NumAllocations;
	const D3DKMT_HANDLE *AllocationList;
	UINT Flags;
	UINT64 NumBytesToTrim;
} D3DKMT_EVICT;

typedef struct _D3DKMT_LOCK2 { D3DKMT_HANDLE hDevice, hAllocation; UINT Flags; void *pData; } D3DKMT_LOCK2;
typedef struct _D3DKMT_UNLOCK2 { D3DKMT_HANDLE hDevice, hAllocation; } D3DKMT_UNLOCK2;

typedef struct _D3DKMT_SUBMITCOMMAND {
	D3DGPU_VIRTUAL_ADDRESS Commands;
	UINT CommandLength;
	UINT Flags;
	UINT64 PresentHistoryToken;
	UINT BroadcastContextCount;
	D3DKMT_HANDLE BroadcastContext[64];
	void *pPrivateDriverData;
	UINT PrivateDriverDataSize;
	UINT NumPrimaries;
	D3DKMT_HANDLE WrittenPrimaries[16];
	UINT NumHistoryBuffers;
	D3DKMT_HANDLE *HistoryBufferArray;
} D3DKMT_SUBMITCOMMAND;

#define D3DDDI_MONITORED_FENCE 5

typedef struct _D3DDDI_SYNCHRONIZATIONOBJECTINFO2 {
	UINT Type;
	UINT Flags;
	union {
		struct {
			UINT64 InitialFenceValue;
			void *FenceValueCPUVirtualAddress;
			D3DGPU_VIRTUAL_ADDRESS FenceValueGPUVirtualAddress;
			UINT EngineAffinity;
			UINT Padding;
		} MonitoredFence;
		UINT64 Reserved[8];
	};
	D3DKMT_HANDLE SharedHandle;
} D3DDDI_SYNCHRONIZATIONOBJECTINFO2;

typedef struct _D3DKMT_CREATESYNCHRONIZATIONOBJECT2 {
	D3DKMT_HANDLE hDevice;
	D3DDDI_SYNCHRONIZATIONOBJECTINFO2 Info;
	D3DKMT_HANDLE hSyncObject;
} D3DKMT_CREATESYNCHRONIZATIONOBJECT2;
typedef struct _D3DKMT_DESTROYSYNCHRONIZATIONOBJECT { D3DKMT_HANDLE hSyncObject; } D3DKMT_DESTROYSYNCHRONIZATIONOBJECT;

typedef struct _D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU {
	D3DKMT_HANDLE hDevice;
	UINT ObjectCount;
	const D3DKMT_HANDLE *ObjectHandleArray;
	const UINT64 *FenceValueArray;
	HANDLE hAsyncEvent;
	UINT Flags;
} D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU;

typedef struct _D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMGPU {
	D3DKMT_HANDLE hContext;
	UINT ObjectCount;
	const D3DKMT_HANDLE *ObjectHandleArray;
	union { const UINT64 *MonitoredFenceValueArray; UINT64 FenceValue; UINT64 Reserved[8]; };
} D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMGPU;

typedef struct _D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU {
	D3DKMT_HANDLE hContext;
	UINT ObjectCount;
	const D3DKMT_HANDLE *ObjectHandleArray;
	union { const UINT64 *MonitoredFenceValueArray; UINT64 Reserved[8]; };
} D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU;

typedef struct _D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMCPU {
	D3DKMT_HANDLE hDevice;
	UINT ObjectCount;
	const D3DKMT_HANDLE *ObjectHandleArray;
	const UINT64 *FenceValueArray;
	UINT Flags;
} D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMCPU;

typedef struct _D3DKMT_QUERYVIDEOMEMORYINFO {
	HANDLE hProcess;
	D3DKMT_HANDLE hAdapter;
	INT MemorySegmentGroup;
	UINT64 Budget;
	UINT64 CurrentUsage;
	UINT64 CurrentReservation;
	UINT64 AvailableForReservation;
	UINT PhysicalAdapterIndex;
} D3DKMT_QUERYVIDEOMEMORYINFO;

typedef struct _D3DKMT_ADAPTERINFO {
	D3DKMT_HANDLE hAdapter;
	LUID AdapterLuid;
	UINT NumOfSources;
	INT bPrecisePresentRegionsPreferred;
} D3DKMT_ADAPTERINFO;
typedef struct _D3DKMT_ENUMADAPTERS2 { UINT NumAdapters; D3DKMT_ADAPTERINFO *pAdapters; } D3DKMT_ENUMADAPTERS2;

typedef struct _D3DKMT_FREEGPUVIRTUALADDRESS {
	D3DKMT_HANDLE hAdapter;
	D3DGPU_VIRTUAL_ADDRESS BaseAddress;
	UINT64 Size;
} D3DKMT_FREEGPUVIRTUALADDRESS;

typedef struct _D3DKMT_OFFERALLOCATIONS {
	D3DKMT_HANDLE hDevice;
	D3DKMT_HANDLE *pResources;
	const D3DKMT_HANDLE *HandleList;
	UINT NumAllocations;
	INT Priority;
	UINT Flags;
} D3DKMT_OFFERALLOCATIONS;

#define D3DKMT_OFFER_PRIORITY_LOW 1

typedef struct _D3DKMT_RECLAIMALLOCATIONS2 {
	D3DKMT_HANDLE hPagingQueue;
	UINT NumAllocations;
	D3DKMT_HANDLE *pResources;
	const D3DKMT_HANDLE *HandleList;
	union { INT *pDiscarded; INT *pResults; };
	UINT64 PagingFenceValue;
} D3DKMT_RECLAIMALLOCATIONS2;

typedef struct _D3DDDI_OPENALLOCATIONINFO2 {
	D3DKMT_HANDLE hAllocation;
	const void *pPrivateDriverData;
	UINT PrivateDriverDataSize;
	D3DGPU_VIRTUAL_ADDRESS GpuVirtualAddress;
	uintptr_t Reserved[6];
} D3DDDI_OPENALLOCATIONINFO2;

typedef struct _D3DKMT_QUERYRESOURCEINFOFROMNTHANDLE {
	D3DKMT_HANDLE hDevice;
	HANDLE hNtHandle;
	void *pPrivateRuntimeData;
	UINT PrivateRuntimeDataSize;
	UINT TotalPrivateDriverDataSize;
	UINT ResourcePrivateDriverDataSize;
	UINT NumAllocations;
} D3DKMT_QUERYRESOURCEINFOFROMNTHANDLE;

typedef struct _D3DKMT_OPENRESOURCEFROMNTHANDLE {
	D3DKMT_HANDLE hDevice;
	HANDLE hNtHandle;
	UINT NumAllocations;
	D3DDDI_OPENALLOCATIONINFO2 *pOpenAllocationInfo2;
	UINT PrivateRuntimeDataSize;
	void *pPrivateRuntimeData;
	UINT ResourcePrivateDriverDataSize;
	void *pResourcePrivateDriverData;
	UINT TotalPrivateDriverDataBufferSize;
	void *pTotalPrivateDriverDataBuffer;
	D3DKMT_HANDLE hResource;
	D3DKMT_HANDLE hKeyedMutex;
	void *pKeyedMutexPrivateRuntimeData;
	UINT KeyedMutexPrivateRuntimeDataSize;
	D3DKMT_HANDLE hSyncObject;
} D3DKMT_OPENRESOURCEFROMNTHANDLE;

typedef struct _D3DKMT_OPENSYNCOBJECTFROMNTHANDLE2 {
	HANDLE hNtHandle;
	D3DKMT_HANDLE hDevice;
	UINT Flags;
	D3DKMT_HANDLE hSyncObject;
	union {
		struct {
			void *FenceValueCPUVirtualAddress;
			D3DGPU_VIRTUAL_ADDRESS FenceValueGPUVirtualAddress;
			UINT EngineAffinity;
		} MonitoredFence;
		UINT64 Reserved[8];
	};
} D3DKMT_OPENSYNCOBJECTFROMNTHANDLE2;

NTSTATUS D3DKMTEnumAdapters2(D3DKMT_ENUMADAPTERS2 *);
NTSTATUS D3DKMTFreeGpuVirtualAddress(const D3DKMT_FREEGPUVIRTUALADDRESS *);
NTSTATUS D3DKMTOfferAllocations(const D3DKMT_OFFERALLOCATIONS *);
NTSTATUS D3DKMTReclaimAllocations2(D3DKMT_RECLAIMALLOCATIONS2 *);
NTSTATUS D3DKMTShareObjects(UINT, const D3DKMT_HANDLE *, void *, UINT, HANDLE *);
NTSTATUS D3DKMTQueryResourceInfoFromNtHandle(D3DKMT_QUERYRESOURCEINFOFROMNTHANDLE *);
NTSTATUS D3DKMTOpenResourceFromNtHandle(D3DKMT_OPENRESOURCEFROMNTHANDLE *);
NTSTATUS D3DKMTOpenSyncObjectFromNtHandle2(D3DKMT_OPENSYNCOBJECTFROMNTHANDLE2 *);
NTSTATUS D3DKMTOpenAdapterFromLuid(D3DKMT_OPENADAPTERFROMLUID *);
NTSTATUS D3DKMTCloseAdapter(const D3DKMT_CLOSEADAPTER *);
NTSTATUS D3DKMTCreateDevice(D3DKMT_CREATEDEVICE *);
NTSTATUS D3DKMTDestroyDevice(const D3DKMT_DESTROYDEVICE *);
NTSTATUS D3DKMTCreatePagingQueue(D3DKMT_CREATEPAGINGQUEUE *);
NTSTATUS D3DKMTDestroyPagingQueue(D3DDDI_DESTROYPAGINGQUEUE *);
NTSTATUS D3DKMTCreateContextVirtual(D3DKMT_CREATECONTEXTVIRTUAL *);
NTSTATUS D3DKMTDestroyContext(const D3DKMT_DESTROYCONTEXT *);
NTSTATUS D3DKMTCreateAllocation2(D3DKMT_CREATEALLOCATION *);
NTSTATUS D3DKMTDestroyAllocation2(const D3DKMT_DESTROYALLOCATION2 *);
NTSTATUS D3DKMTCreateAllocation(D3DKMT_CREATEALLOCATION *);
NTSTATUS D3DKMTDestroyAllocation(const D3DKMT_DESTROYALLOCATION *);
NTSTATUS D3DKMTUpdateAllocationProperty(D3DDDI_UPDATEALLOCPROPERTY *);
NTSTATUS D3DKMTInvalidateCache(const D3DKMT_INVALIDATECACHE *);
NTSTATUS D3DKMTEscape(const D3DKMT_ESCAPE *);
NTSTATUS D3DKMTCreateHwQueue(D3DKMT_CREATEHWQUEUE *);
NTSTATUS D3DKMTDestroyHwQueue(const D3DKMT_DESTROYHWQUEUE *);
NTSTATUS D3DKMTSubmitCommandToHwQueue(const D3DKMT_SUBMITCOMMANDTOHWQUEUE *);
NTSTATUS D3DKMTSubmitWaitForSyncObjectsToHwQueue(const D3DKMT_SUBMITWAITFORSYNCOBJECTSTOHWQUEUE *);
NTSTATUS D3DKMTSubmitSignalSyncObjectsToHwQueue(const D3DKMT_SUBMITSIGNALSYNCOBJECTSTOHWQUEUE *);
NTSTATUS D3DKMTMapGpuVirtualAddress(D3DDDI_MAPGPUVIRTUALADDRESS *);
NTSTATUS D3DKMTReserveGpuVirtualAddress(D3DDDI_RESERVEGPUVIRTUALADDRESS *);
NTSTATUS D3DKMTUpdateGpuVirtualAddress(const D3DKMT_UPDATEGPUVIRTUALADDRESS *);
NTSTATUS D3DKMTMakeResident(D3DDDI_MAKERESIDENT *);
NTSTATUS D3DKMTEvict(D3DKMT_EVICT *);
NTSTATUS D3DKMTLock2(D3DKMT_LOCK2 *);
NTSTATUS D3DKMTUnlock2(const D3DKMT_UNLOCK2 *);
NTSTATUS D3DKMTSubmitCommand(const D3DKMT_SUBMITCOMMAND *);
NTSTATUS D3DKMTCreateSynchronizationObject2(D3DKMT_CREATESYNCHRONIZATIONOBJECT2 *);
NTSTATUS D3DKMTDestroySynchronizationObject(const D3DKMT_DESTROYSYNCHRONIZATIONOBJECT *);
NTSTATUS D3DKMTWaitForSynchronizationObjectFromCpu(const D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU *);
NTSTATUS D3DKMTWaitForSynchronizationObjectFromGpu(const D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMGPU *);
NTSTATUS D3DKMTSignalSynchronizationObjectFromCpu(const D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMCPU *);
NTSTATUS D3DKMTSignalSynchronizationObjectFromGpu(const D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU *);
NTSTATUS D3DKMTQueryVideoMemoryInfo(D3DKMT_QUERYVIDEOMEMORYINFO *);

/* The private data of an allocation for a client without a driver's format: vidmm's own. */
#define VIDMM_KMT_ALLOCATION 0x31434F4C4C415456ull

struct vidmm_kmt_allocation {
	UINT64 magic;
	UINT64 size;
	UINT memory; /* 0 local, 1 system, 2 local or system */
	UINT lockable;
};

/*
 * Whether D3DKMTMakeResident would accept a list, without the call: vidmm's own, so look the function up by dlsym where the client also
 * runs elsewhere. Nothing changes. The answer is STATUS_SUCCESS or STATUS_NO_MEMORY. Bytes of a memory that no allocation of the list can be
 * in are 0.
 */
struct vidmm_kmt_room {
	D3DKMT_HANDLE device;
	UINT num_allocations;
	const D3DKMT_HANDLE *allocations;
	UINT64 num_bytes_to_trim;         /* after STATUS_NO_MEMORY; 0 if no trim of the process is enough */
	UINT64 local_bytes_now;           /* that may join the list at once */
	UINT64 local_bytes_after_trims;   /* that could join the list if the process had trimmed all else */
	UINT64 local_bytes_of_others;     /* that other processes list beyond their reservations */
	UINT64 system_bytes_now;
	UINT64 system_bytes_after_trims;
	UINT64 system_bytes_of_others;
};

NTSTATUS vidmm_kmt_query_room(struct vidmm_kmt_room *);

#ifdef __cplusplus
}
#endif

#endif
