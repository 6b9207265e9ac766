/*
 * The entry of a display miniport driver: its table of functions, and Dxgkrnl's. Written for vidmm from public documentation.
 *
 * The layouts of DRIVER_INITIALIZATION_DATA, DXGKRNL_INTERFACE, DXGK_START_INFO and DXGK_DEVICE_INFO have one source each. A
 * function that vidmm never calls, or does not have, is a PVOID here; those of DXGKRNL_INTERFACE that vidmm does not have are NULL.
 */
#ifndef VIDMM_DISPMPRT_H
#define VIDMM_DISPMPRT_H

#include "vidmm_display.h"

typedef struct _DXGK_START_INFO {
    ULONG RequiredDmaQueueEntry;
    GUID AdapterGuid;
    LUID AdapterLuid;
} DXGK_START_INFO, *PDXGK_START_INFO, *IN_PDXGK_START_INFO;

typedef enum _DOCKING_STATE {
    DockStateUnsupported = 0,
    DockStateUnDocked = 1,
    DockStateDocked = 2,
    DockStateUnknown = 3
} DOCKING_STATE;

typedef struct _DXGK_DEVICE_INFO {
    PVOID MiniportDeviceContext;
    PDEVICE_OBJECT PhysicalDeviceObject;
    UNICODE_STRING DeviceRegistryPath;
    PCM_RESOURCE_LIST TranslatedResourceList; /* one range of registers, which are memory here, and one interrupt */
    LARGE_INTEGER SystemMemorySize;
    PHYSICAL_ADDRESS HighestPhysicalAddress;
    PHYSICAL_ADDRESS AgpApertureBase;
    SIZE_T AgpApertureSize;
    DOCKING_STATE DockingState;
} DXGK_DEVICE_INFO, *PDXGK_DEVICE_INFO;

typedef enum _DXGK_HANDLE_TYPE {
    DXGK_HANDLE_ALLOCATION = 1,
    DXGK_HANDLE_RESOURCE = 2
} DXGK_HANDLE_TYPE;

typedef struct _DXGKARGCB_GETHANDLEDATA {
    D3DKMT_HANDLE hObject;
    DXGK_HANDLE_TYPE Type;
    union {
        struct {
            UINT DeviceSpecific : 1;
            UINT Reserved : 31;
        };
        UINT Value;
    } Flags;
} DXGKARGCB_GETHANDLEDATA;

typedef HANDLE DXGKARG_RELEASE_HANDLE;

typedef struct _DXGKARGCB_RELEASEHANDLEDATA {
    DXGKARG_RELEASE_HANDLE ReleaseHandle;
    DXGK_HANDLE_TYPE Type;
} DXGKARGCB_RELEASEHANDLEDATA;

typedef struct _DXGKARGCB_ENUMHANDLECHILDREN DXGKARGCB_ENUMHANDLECHILDREN;

/* ---- Dxgkrnl's functions ---- */

typedef PVOID (*DXGKCB_GETHANDLEDATA)(const DXGKARGCB_GETHANDLEDATA *pGetHandleData);

/* The driver's data stays until the release; ReleaseHandle is for DxgkCbReleaseHandleData. */
typedef PVOID (*DXGKCB_ACQUIREHANDLEDATA)(const DXGKARGCB_GETHANDLEDATA *pGetHandleData, DXGKARG_RELEASE_HANDLE *ReleaseHandle);
typedef VOID (*DXGKCB_RELEASEHANDLEDATA)(DXGKARGCB_RELEASEHANDLEDATA ReleaseHandleData);

typedef D3DKMT_HANDLE (*DXGKCB_ENUMHANDLECHILDREN)(const DXGKARGCB_ENUMHANDLECHILDREN *pEnumHandleChildren);

typedef NTSTATUS (*DXGKCB_MAP_MEMORY)(HANDLE DeviceHandle, PHYSICAL_ADDRESS TranslatedAddress, ULONG Length, BOOLEAN InIoSpace, BOOLEAN MapToUserMode, MEMORY_CACHING_TYPE CacheType, PVOID *VirtualAddress);
typedef NTSTATUS (*DXGKCB_UNMAP_MEMORY)(HANDLE DeviceHandle, PVOID VirtualAddress);
typedef NTSTATUS (*DXGKCB_READ_DEVICE_SPACE)(HANDLE DeviceHandle, ULONG DataType, PVOID Buffer, ULONG Offset, ULONG Length, PULONG BytesRead);
typedef NTSTATUS (*DXGKCB_WRITE_DEVICE_SPACE)(HANDLE DeviceHandle, ULONG DataType, PVOID Buffer, ULONG Offset, ULONG Length, PULONG BytesWritten);
typedef NTSTATUS (*DXGKCB_SETPOWERCOMPONENTACTIVE)(HANDLE hAdapter, UINT ComponentIndex);
typedef NTSTATUS (*DXGKCB_SETPOWERCOMPONENTIDLE)(HANDLE hAdapter, UINT ComponentIndex);
typedef VOID (*DXGKCB_COMPLETEFSTATETRANSITION)(HANDLE hAdapter, UINT ComponentIndex);
typedef NTSTATUS (*DXGKCB_SETPOWERCOMPONENTLATENCY)(HANDLE hAdapter, UINT ComponentIndex, ULONGLONG Latency);
typedef NTSTATUS (*DXGKCB_SETPOWERCOMPONENTRESIDENCY)(HANDLE hAdapter, UINT ComponentIndex, ULONGLONG Residency);
typedef NTSTATUS (*DXGKCB_POWERRUNTIMECONTROLREQUEST)(HANDLE hAdapter, LPCGUID PowerControlCode, PVOID InBuffer, SIZE_T InBufferSize, PVOID OutBuffer, SIZE_T OutBufferSize, PSIZE_T BytesReturned);

typedef VOID (*DXGKCB_NOTIFY_INTERRUPT)(HANDLE hAdapter, const DXGKARGCB_NOTIFY_INTERRUPT_DATA *pData);

typedef VOID (*DXGKCB_NOTIFY_DPC)(HANDLE hAdapter);

typedef BOOLEAN (*DXGKCB_QUEUE_DPC)(HANDLE DeviceHandle);

typedef NTSTATUS (*DXGKCB_GET_DEVICE_INFORMATION)(HANDLE DeviceHandle, PDXGK_DEVICE_INFO DeviceInfo);

typedef NTSTATUS (*DXGKCB_SYNCHRONIZE_EXECUTION)(HANDLE DeviceHandle, PKSYNCHRONIZE_ROUTINE SynchronizeRoutine, PVOID Context, ULONG MessageNumber, PBOOLEAN ReturnValue);

typedef struct _DXGKRNL_INTERFACE {
    ULONG Size;
    ULONG Version;
    HANDLE DeviceHandle;
    PVOID DxgkCbEvalAcpiMethod;
    DXGKCB_GET_DEVICE_INFORMATION DxgkCbGetDeviceInformation;
    PVOID DxgkCbIndicateChildStatus;
    DXGKCB_MAP_MEMORY DxgkCbMapMemory;
    DXGKCB_QUEUE_DPC DxgkCbQueueDpc;
    PVOID DxgkCbQueryServices;
    DXGKCB_READ_DEVICE_SPACE DxgkCbReadDeviceSpace;
    DXGKCB_SYNCHRONIZE_EXECUTION DxgkCbSynchronizeExecution;
    DXGKCB_UNMAP_MEMORY DxgkCbUnmapMemory;
    DXGKCB_WRITE_DEVICE_SPACE DxgkCbWriteDeviceSpace;
    PVOID DxgkCbIsDevicePresent;
    DXGKCB_GETHANDLEDATA DxgkCbGetHandleData;
    PVOID DxgkCbGetHandleParent;
    DXGKCB_ENUMHANDLECHILDREN DxgkCbEnumHandleChildren;
    DXGKCB_NOTIFY_INTERRUPT DxgkCbNotifyInterrupt;
    DXGKCB_NOTIFY_DPC DxgkCbNotifyDpc;
    PVOID DxgkCbQueryVidPnInterface;
    PVOID DxgkCbQueryMonitorInterface;
    PVOID DxgkCbGetCaptureAddress;
    PVOID DxgkCbLogEtwEvent;
    PVOID DxgkCbExcludeAdapterAccess;
    PVOID DxgkCbCreateContextAllocation;
    PVOID DxgkCbDestroyContextAllocation;
    DXGKCB_SETPOWERCOMPONENTACTIVE DxgkCbSetPowerComponentActive;
    DXGKCB_SETPOWERCOMPONENTIDLE DxgkCbSetPowerComponentIdle;
    PVOID DxgkCbAcquirePostDisplayOwnership;
    DXGKCB_POWERRUNTIMECONTROLREQUEST DxgkCbPowerRuntimeControlRequest;
    DXGKCB_SETPOWERCOMPONENTLATENCY DxgkCbSetPowerComponentLatency;
    DXGKCB_SETPOWERCOMPONENTRESIDENCY DxgkCbSetPowerComponentResidency;
    DXGKCB_COMPLETEFSTATETRANSITION DxgkCbCompleteFStateTransition;
    PVOID DxgkCbCompletePStateTransition;
    PVOID DxgkCbMapContextAllocation;
    PVOID DxgkCbUpdateContextAllocation;
    PVOID DxgkCbReserveGpuVirtualAddressRange;
    DXGKCB_ACQUIREHANDLEDATA DxgkCbAcquireHandleData;
    DXGKCB_RELEASEHANDLEDATA DxgkCbReleaseHandleData;
    PVOID DxgkCbHardwareContentProtectionTeardown;
    PVOID DxgkCbMultiPlaneOverlayDisabled;
    PVOID DxgkCbMitigatedRangeUpdate;
    PVOID DxgkCbInvalidateHwContext;
    PVOID DxgkCbIndicateConnectorChange;
    PVOID DxgkCbUnblockUEFIFrameBufferRanges;
    PVOID DxgkCbAcquirePostDisplayOwnership2;
    PVOID DxgkCbSetProtectedSessionStatus;
    PVOID DxgkCbAllocateContiguousMemory;
    PVOID DxgkCbFreeContiguousMemory;
    PVOID DxgkCbAllocatePagesForMdl;
    PVOID DxgkCbFreePagesFromMdl;
    PVOID DxgkCbPinFrameBufferForSave;
    PVOID DxgkCbUnpinFrameBufferForSave;
    PVOID DxgkCbMapFrameBufferPointer;
    PVOID DxgkCbUnmapFrameBufferPointer;
    PVOID DxgkCbMapMdlToIoMmu;
    PVOID DxgkCbUnmapMdlFromIoMmu;
    PVOID DxgkCbReportDiagnostic;
    PVOID DxgkCbSignalEvent;
    PVOID DxgkCbIsFeatureEnabled;
    PVOID DxgkCbSaveMemoryForHotUpdate;
    PVOID DxgkCbNotifyCursorSupportChange;
    PVOID DxgkCbQueryFeatureSupport;
    PVOID DxgkCbCreatePhysicalMemoryObject;
    PVOID DxgkCbDestroyPhysicalMemoryObject;
    PVOID DxgkCbMapPhysicalMemory;
    PVOID DxgkCbUnmapPhysicalMemory;
    PVOID DxgkCbAllocateAdl;
    PVOID DxgkCbFreeAdl;
    PVOID DxgkCbOpenPhysicalMemoryObject;
    PVOID DxgkCbClosePhysicalMemoryObject;
    PVOID DxgkCbPinFrameBufferForSave2;
    PVOID DxgkCbDisconnectDoorbell;
} DXGKRNL_INTERFACE, *PDXGKRNL_INTERFACE, *IN_PDXGKRNL_INTERFACE;

/* ---- The driver's functions ---- */

typedef NTSTATUS DXGKDDI_ADD_DEVICE(const PDEVICE_OBJECT PhysicalDeviceObject, PVOID *MiniportDeviceContext);
typedef DXGKDDI_ADD_DEVICE *PDXGKDDI_ADD_DEVICE;

typedef NTSTATUS DXGKDDI_START_DEVICE(const PVOID MiniportDeviceContext, PDXGK_START_INFO DxgkStartInfo, PDXGKRNL_INTERFACE DxgkInterface, PULONG NumberOfVideoPresentSources, PULONG NumberOfChildren);
typedef DXGKDDI_START_DEVICE *PDXGKDDI_START_DEVICE;

typedef NTSTATUS DXGKDDI_STOP_DEVICE(const PVOID MiniportDeviceContext);
typedef DXGKDDI_STOP_DEVICE *PDXGKDDI_STOP_DEVICE;

typedef NTSTATUS DXGKDDI_REMOVE_DEVICE(const PVOID MiniportDeviceContext);
typedef DXGKDDI_REMOVE_DEVICE *PDXGKDDI_REMOVE_DEVICE;

typedef BOOLEAN DXGKDDI_INTERRUPT_ROUTINE(const PVOID MiniportDeviceContext, ULONG MessageNumber);
typedef DXGKDDI_INTERRUPT_ROUTINE *PDXGKDDI_INTERRUPT_ROUTINE;

typedef VOID DXGKDDI_DPC_ROUTINE(const PVOID MiniportDeviceContext);
typedef DXGKDDI_DPC_ROUTINE *PDXGKDDI_DPC_ROUTINE;

typedef VOID DXGKDDI_RESET_DEVICE(const PVOID MiniportDeviceContext);
typedef DXGKDDI_RESET_DEVICE *PDXGKDDI_RESET_DEVICE;

typedef VOID DXGKDDI_UNLOAD(VOID);
typedef DXGKDDI_UNLOAD *PDXGKDDI_UNLOAD;

typedef NTSTATUS DXGKDDI_QUERYADAPTERINFO(const HANDLE hAdapter, const DXGKARG_QUERYADAPTERINFO *pQueryAdapterInfo);
typedef DXGKDDI_QUERYADAPTERINFO *PDXGKDDI_QUERYADAPTERINFO;

typedef NTSTATUS DXGKDDI_CREATEDEVICE(const HANDLE hAdapter, DXGKARG_CREATEDEVICE *pCreateDevice);
typedef DXGKDDI_CREATEDEVICE *PDXGKDDI_CREATEDEVICE;

typedef NTSTATUS DXGKDDI_DESTROYDEVICE(const HANDLE hDevice);
typedef DXGKDDI_DESTROYDEVICE *PDXGKDDI_DESTROYDEVICE;

typedef NTSTATUS DXGKDDI_CREATEALLOCATION(const HANDLE hAdapter, DXGKARG_CREATEALLOCATION *pCreateAllocation);
typedef DXGKDDI_CREATEALLOCATION *PDXGKDDI_CREATEALLOCATION;

typedef NTSTATUS DXGKDDI_DESTROYALLOCATION(const HANDLE hAdapter, const DXGKARG_DESTROYALLOCATION *pDestroyAllocation);
typedef DXGKDDI_DESTROYALLOCATION *PDXGKDDI_DESTROYALLOCATION;

typedef NTSTATUS DXGKDDI_GETSTANDARDALLOCATIONDRIVERDATA(const HANDLE hAdapter, DXGKARG_GETSTANDARDALLOCATIONDRIVERDATA *pGetStandardAllocationDriverData);
typedef DXGKDDI_GETSTANDARDALLOCATIONDRIVERDATA *PDXGKDDI_GETSTANDARDALLOCATIONDRIVERDATA;

typedef NTSTATUS DXGKDDI_OPENALLOCATION(const HANDLE hDevice, const DXGKARG_OPENALLOCATION *pOpenAllocation);
typedef DXGKDDI_OPENALLOCATION *PDXGKDDI_OPENALLOCATION;

typedef NTSTATUS DXGKDDI_CLOSEALLOCATION(const HANDLE hDevice, const DXGKARG_CLOSEALLOCATION *pCloseAllocation);
typedef DXGKDDI_CLOSEALLOCATION *PDXGKDDI_CLOSEALLOCATION;

typedef NTSTATUS DXGKDDI_RENDER(const HANDLE hContext, DXGKARG_RENDER *pRender);
typedef DXGKDDI_RENDER *PDXGKDDI_RENDER;

typedef NTSTATUS DXGKDDI_PATCH(const HANDLE hAdapter, const DXGKARG_PATCH *pPatch);
typedef DXGKDDI_PATCH *PDXGKDDI_PATCH;

typedef NTSTATUS DXGKDDI_SUBMITCOMMAND(const HANDLE hAdapter, const DXGKARG_SUBMITCOMMAND *pSubmitCommand);
typedef DXGKDDI_SUBMITCOMMAND *PDXGKDDI_SUBMITCOMMAND;

typedef NTSTATUS DXGKDDI_SUBMITCOMMANDVIRTUAL(const HANDLE hAdapter, const DXGKARG_SUBMITCOMMANDVIRTUAL *pSubmitCommandVirtual);
typedef DXGKDDI_SUBMITCOMMANDVIRTUAL *PDXGKDDI_SUBMITCOMMANDVIRTUAL;

typedef NTSTATUS DXGKDDI_PREEMPTCOMMAND(const HANDLE hAdapter, const DXGKARG_PREEMPTCOMMAND *pPreemptCommand);
typedef DXGKDDI_PREEMPTCOMMAND *PDXGKDDI_PREEMPTCOMMAND;

typedef NTSTATUS DXGKDDI_BUILDPAGINGBUFFER(const HANDLE hAdapter, DXGKARG_BUILDPAGINGBUFFER *pBuildPagingBuffer);
typedef DXGKDDI_BUILDPAGINGBUFFER *PDXGKDDI_BUILDPAGINGBUFFER;

typedef NTSTATUS DXGKDDI_RESETFROMTIMEOUT(const HANDLE hAdapter);
typedef DXGKDDI_RESETFROMTIMEOUT *PDXGKDDI_RESETFROMTIMEOUT;

typedef NTSTATUS DXGKDDI_RESTARTFROMTIMEOUT(const HANDLE hAdapter);
typedef DXGKDDI_RESTARTFROMTIMEOUT *PDXGKDDI_RESTARTFROMTIMEOUT;

typedef NTSTATUS DXGKDDI_RESETENGINE(const HANDLE hAdapter, DXGKARG_RESETENGINE *pResetEngine);
typedef DXGKDDI_RESETENGINE *PDXGKDDI_RESETENGINE;

typedef NTSTATUS DXGKDDI_QUERYDEPENDENTENGINEGROUP(const HANDLE hAdapter, DXGKARG_QUERYDEPENDENTENGINEGROUP *pQueryDependentEngineGroup);
typedef DXGKDDI_QUERYDEPENDENTENGINEGROUP *PDXGKDDI_QUERYDEPENDENTENGINEGROUP;

typedef NTSTATUS DXGKDDI_CREATECONTEXT(const HANDLE hDevice, DXGKARG_CREATECONTEXT *pCreateContext);
typedef DXGKDDI_CREATECONTEXT *PDXGKDDI_CREATECONTEXT;

typedef NTSTATUS DXGKDDI_DESTROYCONTEXT(const HANDLE hContext);
typedef DXGKDDI_DESTROYCONTEXT *PDXGKDDI_DESTROYCONTEXT;

typedef NTSTATUS DXGKDDI_CREATEPROCESS(const HANDLE hAdapter, DXGKARG_CREATEPROCESS *pCreateProcess);
typedef DXGKDDI_CREATEPROCESS *PDXGKDDI_CREATEPROCESS;

typedef NTSTATUS DXGKDDI_DESTROYPROCESS(const HANDLE hAdapter, const HANDLE hKmdProcess);
typedef DXGKDDI_DESTROYPROCESS *PDXGKDDI_DESTROYPROCESS;

typedef NTSTATUS DXGKDDI_GETNODEMETADATA(const HANDLE hAdapter, UINT NodeOrdinalAndAdapterIndex, DXGKARG_GETNODEMETADATA *pGetNodeMetadata);
typedef DXGKDDI_GETNODEMETADATA *PDXGKDDI_GETNODEMETADATA;

typedef VOID DXGKDDI_SETROOTPAGETABLE(const HANDLE hAdapter, const DXGKARG_SETROOTPAGETABLE *pSetPageTable);
typedef DXGKDDI_SETROOTPAGETABLE *PDXGKDDI_SETROOTPAGETABLE;

typedef SIZE_T DXGKDDI_GETROOTPAGETABLESIZE(const HANDLE hAdapter, DXGKARG_GETROOTPAGETABLESIZE *pArgs);
typedef DXGKDDI_GETROOTPAGETABLESIZE *PDXGKDDI_GETROOTPAGETABLESIZE;

typedef NTSTATUS DXGKDDI_VALIDATEUPDATEALLOCATIONPROPERTY(const HANDLE hAdapter, DXGKARG_VALIDATEUPDATEALLOCPROPERTY *pValidateUpdateAllocProperty);
typedef DXGKDDI_VALIDATEUPDATEALLOCATIONPROPERTY *PDXGKDDI_VALIDATEUPDATEALLOCATIONPROPERTY;

typedef struct _DRIVER_INITIALIZATION_DATA {
    ULONG Version;
    PDXGKDDI_ADD_DEVICE DxgkDdiAddDevice;
    PDXGKDDI_START_DEVICE DxgkDdiStartDevice;
    PDXGKDDI_STOP_DEVICE DxgkDdiStopDevice;
    PDXGKDDI_REMOVE_DEVICE DxgkDdiRemoveDevice;
    PDXGKDDI_DISPATCH_IO_REQUEST DxgkDdiDispatchIoRequest;
    PDXGKDDI_INTERRUPT_ROUTINE DxgkDdiInterruptRoutine;
    PDXGKDDI_DPC_ROUTINE DxgkDdiDpcRoutine;
    PDXGKDDI_QUERY_CHILD_RELATIONS DxgkDdiQueryChildRelations;
    PDXGKDDI_QUERY_CHILD_STATUS DxgkDdiQueryChildStatus;
    PDXGKDDI_QUERY_DEVICE_DESCRIPTOR DxgkDdiQueryDeviceDescriptor;
    PDXGKDDI_SET_POWER_STATE DxgkDdiSetPowerState;
    PDXGKDDI_NOTIFY_ACPI_EVENT DxgkDdiNotifyAcpiEvent;
    PDXGKDDI_RESET_DEVICE DxgkDdiResetDevice;
    PDXGKDDI_UNLOAD DxgkDdiUnload;
    PDXGKDDI_QUERY_INTERFACE DxgkDdiQueryInterface;
    PDXGKDDI_CONTROL_ETW_LOGGING DxgkDdiControlEtwLogging;
    PDXGKDDI_QUERYADAPTERINFO DxgkDdiQueryAdapterInfo;
    PDXGKDDI_CREATEDEVICE DxgkDdiCreateDevice;
    PDXGKDDI_CREATEALLOCATION DxgkDdiCreateAllocation;
    PDXGKDDI_DESTROYALLOCATION DxgkDdiDestroyAllocation;
    PDXGKDDI_DESCRIBEALLOCATION DxgkDdiDescribeAllocation;
    PDXGKDDI_GETSTANDARDALLOCATIONDRIVERDATA DxgkDdiGetStandardAllocationDriverData;
    PDXGKDDI_ACQUIRESWIZZLINGRANGE DxgkDdiAcquireSwizzlingRange;
    PDXGKDDI_RELEASESWIZZLINGRANGE DxgkDdiReleaseSwizzlingRange;
    PDXGKDDI_PATCH DxgkDdiPatch;
    PDXGKDDI_SUBMITCOMMAND DxgkDdiSubmitCommand;
    PDXGKDDI_PREEMPTCOMMAND DxgkDdiPreemptCommand;
    PDXGKDDI_BUILDPAGINGBUFFER DxgkDdiBuildPagingBuffer;
    PDXGKDDI_SETPALETTE DxgkDdiSetPalette;
    PDXGKDDI_SETPOINTERPOSITION DxgkDdiSetPointerPosition;
    PDXGKDDI_SETPOINTERSHAPE DxgkDdiSetPointerShape;
    PDXGKDDI_RESETFROMTIMEOUT DxgkDdiResetFromTimeout;
    PDXGKDDI_RESTARTFROMTIMEOUT DxgkDdiRestartFromTimeout;
    PDXGKDDI_ESCAPE DxgkDdiEscape;
    PDXGKDDI_COLLECTDBGINFO DxgkDdiCollectDbgInfo;
    PDXGKDDI_QUERYCURRENTFENCE DxgkDdiQueryCurrentFence;
    PDXGKDDI_ISSUPPORTEDVIDPN DxgkDdiIsSupportedVidPn;
    PDXGKDDI_RECOMMENDFUNCTIONALVIDPN DxgkDdiRecommendFunctionalVidPn;
    PDXGKDDI_ENUMVIDPNCOFUNCMODALITY DxgkDdiEnumVidPnCofuncModality;
    PDXGKDDI_SETVIDPNSOURCEADDRESS DxgkDdiSetVidPnSourceAddress;
    PDXGKDDI_SETVIDPNSOURCEVISIBILITY DxgkDdiSetVidPnSourceVisibility;
    PDXGKDDI_COMMITVIDPN DxgkDdiCommitVidPn;
    PDXGKDDI_UPDATEACTIVEVIDPNPRESENTPATH DxgkDdiUpdateActiveVidPnPresentPath;
    PDXGKDDI_RECOMMENDMONITORMODES DxgkDdiRecommendMonitorModes;
    PDXGKDDI_RECOMMENDVIDPNTOPOLOGY DxgkDdiRecommendVidPnTopology;
    PDXGKDDI_GETSCANLINE DxgkDdiGetScanLine;
    PDXGKDDI_STOPCAPTURE DxgkDdiStopCapture;
    PDXGKDDI_CONTROLINTERRUPT DxgkDdiControlInterrupt;
    PDXGKDDI_CREATEOVERLAY DxgkDdiCreateOverlay;
    PDXGKDDI_DESTROYDEVICE DxgkDdiDestroyDevice;
    PDXGKDDI_OPENALLOCATION DxgkDdiOpenAllocation;
    PDXGKDDI_CLOSEALLOCATION DxgkDdiCloseAllocation;
    PDXGKDDI_RENDER DxgkDdiRender;
    PDXGKDDI_PRESENT DxgkDdiPresent;
    PDXGKDDI_UPDATEOVERLAY DxgkDdiUpdateOverlay;
    PDXGKDDI_FLIPOVERLAY DxgkDdiFlipOverlay;
    PDXGKDDI_DESTROYOVERLAY DxgkDdiDestroyOverlay;
    PDXGKDDI_CREATECONTEXT DxgkDdiCreateContext;
    PDXGKDDI_DESTROYCONTEXT DxgkDdiDestroyContext;
    PDXGKDDI_LINK_DEVICE DxgkDdiLinkDevice;
    PDXGKDDI_SETDISPLAYPRIVATEDRIVERFORMAT DxgkDdiSetDisplayPrivateDriverFormat;
    PVOID DxgkDdiDescribePageTable;
    PVOID DxgkDdiUpdatePageTable;
    PVOID DxgkDdiUpdatePageDirectory;
    PVOID DxgkDdiMovePageDirectory;
    PVOID DxgkDdiSubmitRender;
    PVOID DxgkDdiCreateAllocation2;
    PVOID DxgkDdiRenderKm;
    PVOID Reserved;
    PDXGKDDI_QUERYVIDPNHWCAPABILITY DxgkDdiQueryVidPnHWCapability;
    PDXGKDDISETPOWERCOMPONENTFSTATE DxgkDdiSetPowerComponentFState;
    PDXGKDDI_QUERYDEPENDENTENGINEGROUP DxgkDdiQueryDependentEngineGroup;
    PDXGKDDI_QUERYENGINESTATUS DxgkDdiQueryEngineStatus;
    PDXGKDDI_RESETENGINE DxgkDdiResetEngine;
    PDXGKDDI_STOP_DEVICE_AND_RELEASE_POST_DISPLAY_OWNERSHIP DxgkDdiStopDeviceAndReleasePostDisplayOwnership;
    PDXGKDDI_SYSTEM_DISPLAY_ENABLE DxgkDdiSystemDisplayEnable;
    PDXGKDDI_SYSTEM_DISPLAY_WRITE DxgkDdiSystemDisplayWrite;
    PDXGKDDI_CANCELCOMMAND DxgkDdiCancelCommand;
    PDXGKDDI_GET_CHILD_CONTAINER_ID DxgkDdiGetChildContainerId;
    PDXGKDDIPOWERRUNTIMECONTROLREQUEST DxgkDdiPowerRuntimeControlRequest;
    PDXGKDDI_SETVIDPNSOURCEADDRESSWITHMULTIPLANEOVERLAY DxgkDdiSetVidPnSourceAddressWithMultiPlaneOverlay;
    PDXGKDDI_NOTIFY_SURPRISE_REMOVAL DxgkDdiNotifySurpriseRemoval;
    PDXGKDDI_GETNODEMETADATA DxgkDdiGetNodeMetadata;
    PVOID DxgkDdiSetPowerPState;
    PDXGKDDI_CONTROLINTERRUPT2 DxgkDdiControlInterrupt2;
    PDXGKDDI_CHECKMULTIPLANEOVERLAYSUPPORT DxgkDdiCheckMultiPlaneOverlaySupport;
    PDXGKDDI_CALIBRATEGPUCLOCK DxgkDdiCalibrateGpuClock;
    PDXGKDDI_FORMATHISTORYBUFFER DxgkDdiFormatHistoryBuffer;
    PDXGKDDI_RENDERGDI DxgkDdiRenderGdi;
    PDXGKDDI_SUBMITCOMMANDVIRTUAL DxgkDdiSubmitCommandVirtual;
    PDXGKDDI_SETROOTPAGETABLE DxgkDdiSetRootPageTable;
    PDXGKDDI_GETROOTPAGETABLESIZE DxgkDdiGetRootPageTableSize;
    PDXGKDDI_MAPCPUHOSTAPERTURE DxgkDdiMapCpuHostAperture;
    PDXGKDDI_UNMAPCPUHOSTAPERTURE DxgkDdiUnmapCpuHostAperture;
    PDXGKDDI_CHECKMULTIPLANEOVERLAYSUPPORT2 DxgkDdiCheckMultiPlaneOverlaySupport2;
    PDXGKDDI_CREATEPROCESS DxgkDdiCreateProcess;
    PDXGKDDI_DESTROYPROCESS DxgkDdiDestroyProcess;
    PDXGKDDI_SETVIDPNSOURCEADDRESSWITHMULTIPLANEOVERLAY2 DxgkDdiSetVidPnSourceAddressWithMultiPlaneOverlay2;
    PVOID Reserved1;
    PVOID Reserved2;
    PDXGKDDI_POWERRUNTIMESETDEVICEHANDLE DxgkDdiPowerRuntimeSetDeviceHandle;
    PDXGKDDI_SETSTABLEPOWERSTATE DxgkDdiSetStablePowerState;
    PDXGKDDI_SETVIDEOPROTECTEDREGION DxgkDdiSetVideoProtectedRegion;
    PDXGKDDI_CHECKMULTIPLANEOVERLAYSUPPORT3 DxgkDdiCheckMultiPlaneOverlaySupport3;
    PDXGKDDI_SETVIDPNSOURCEADDRESSWITHMULTIPLANEOVERLAY3 DxgkDdiSetVidPnSourceAddressWithMultiPlaneOverlay3;
    PDXGKDDI_POSTMULTIPLANEOVERLAYPRESENT DxgkDdiPostMultiPlaneOverlayPresent;
    PDXGKDDI_VALIDATEUPDATEALLOCATIONPROPERTY DxgkDdiValidateUpdateAllocationProperty;
    PDXGKDDI_CONTROLMODEBEHAVIOR DxgkDdiControlModeBehavior;
    PDXGKDDI_UPDATEMONITORLINKINFO DxgkDdiUpdateMonitorLinkInfo;
    PDXGKDDI_CREATEHWCONTEXT DxgkDdiCreateHwContext;
    PDXGKDDI_DESTROYHWCONTEXT DxgkDdiDestroyHwContext;
    PDXGKDDI_CREATEHWQUEUE DxgkDdiCreateHwQueue;
    PDXGKDDI_DESTROYHWQUEUE DxgkDdiDestroyHwQueue;
    PDXGKDDI_SUBMITCOMMANDTOHWQUEUE DxgkDdiSubmitCommandToHwQueue;
    PDXGKDDI_SWITCHTOHWCONTEXTLIST DxgkDdiSwitchToHwContextList;
    PDXGKDDI_RESETHWENGINE DxgkDdiResetHwEngine;
    PDXGKDDI_CREATEPERIODICFRAMENOTIFICATION DxgkDdiCreatePeriodicFrameNotification;
    PDXGKDDI_DESTROYPERIODICFRAMENOTIFICATION DxgkDdiDestroyPeriodicFrameNotification;
    PDXGKDDI_SETTIMINGSFROMVIDPN DxgkDdiSetTimingsFromVidPn;
    PDXGKDDI_SETTARGETGAMMA DxgkDdiSetTargetGamma;
    PDXGKDDI_SETTARGETCONTENTTYPE DxgkDdiSetTargetContentType;
    PDXGKDDI_SETTARGETANALOGCOPYPROTECTION DxgkDdiSetTargetAnalogCopyProtection;
    PDXGKDDI_SETTARGETADJUSTEDCOLORIMETRY DxgkDdiSetTargetAdjustedColorimetry;
    PDXGKDDI_DISPLAYDETECTCONTROL DxgkDdiDisplayDetectControl;
    PDXGKDDI_QUERYCONNECTIONCHANGE DxgkDdiQueryConnectionChange;
    PDXGKDDI_EXCHANGEPRESTARTINFO DxgkDdiExchangePreStartInfo;
    PDXGKDDI_GETMULTIPLANEOVERLAYCAPS DxgkDdiGetMultiPlaneOverlayCaps;
    PDXGKDDI_GETPOSTCOMPOSITIONCAPS DxgkDdiGetPostCompositionCaps;
    PDXGKDDI_UPDATEHWCONTEXTSTATE DxgkDdiUpdateHwContextState;
    PDXGKDDI_CREATEPROTECTEDSESSION DxgkDdiCreateProtectedSession;
    PDXGKDDI_DESTROYPROTECTEDSESSION DxgkDdiDestroyProtectedSession;
    PDXGKDDI_SETSCHEDULINGLOGBUFFER DxgkDdiSetSchedulingLogBuffer;
    PDXGKDDI_SETUPPRIORITYBANDS DxgkDdiSetupPriorityBands;
    PDXGKDDI_NOTIFYFOCUSPRESENT DxgkDdiNotifyFocusPresent;
    PDXGKDDI_SETCONTEXTSCHEDULINGPROPERTIES DxgkDdiSetContextSchedulingProperties;
    PDXGKDDI_SUSPENDCONTEXT DxgkDdiSuspendContext;
    PDXGKDDI_RESUMECONTEXT DxgkDdiResumeContext;
    PDXGKDDI_SETVIRTUALMACHINEDATA DxgkDdiSetVirtualMachineData;
    PDXGKDDI_BEGINEXCLUSIVEACCESS DxgkDdiBeginExclusiveAccess;
    PDXGKDDI_ENDEXCLUSIVEACCESS DxgkDdiEndExclusiveAccess;
    PDXGKDDI_QUERYDIAGNOSTICTYPESSUPPORT DxgkDdiQueryDiagnosticTypesSupport;
    PDXGKDDI_CONTROLDIAGNOSTICREPORTING DxgkDdiControlDiagnosticReporting;
    PDXGKDDI_RESUMEHWENGINE DxgkDdiResumeHwEngine;
    PDXGKDDI_SIGNALMONITOREDFENCE DxgkDdiSignalMonitoredFence;
    PDXGKDDI_PRESENTTOHWQUEUE DxgkDdiPresentToHwQueue;
    PDXGKDDI_VALIDATESUBMITCOMMAND DxgkDdiValidateSubmitCommand;
    PDXGKDDI_SETTARGETADJUSTEDCOLORIMETRY2 DxgkDdiSetTargetAdjustedColorimetry2;
    PDXGKDDI_SETTRACKEDWORKLOADPOWERLEVEL DxgkDdiSetTrackedWorkloadPowerLevel;
    PDXGKDDI_SAVEMEMORYFORHOTUPDATE DxgkDdiSaveMemoryForHotUpdate;
    PDXGKDDI_RESTOREMEMORYFORHOTUPDATE DxgkDdiRestoreMemoryForHotUpdate;
    PDXGKDDI_COLLECTDIAGNOSTICINFO DxgkDdiCollectDiagnosticInfo;
    PVOID Reserved3;
    PDXGKDDI_CONTROLINTERRUPT3 DxgkDdiControlInterrupt3;
    PVOID DxgkDdiSetFlipQueueLogBuffer;
    PVOID DxgkDdiUpdateFlipQueueLog;
    PVOID DxgkDdiCancelQueuedFlips;
    PVOID DxgkDdiSetInterruptTargetPresentId;
    PVOID DxgkDdiSetAllocationBackingStore;
    PVOID DxgkDdiCreateCpuEvent;
    PVOID DxgkDdiDestroyCpuEvent;
    PVOID DxgkDdiCancelFlips;
    PVOID DxgkDdiCreateNativeFence;
    PVOID DxgkDdiDestroyNativeFence;
    PVOID DxgkDdiUpdateMonitoredValues;
    PVOID DxgkDdiUpdateCurrentValuesFromCpu;
    PVOID DxgkDdiCreateDoorbell;
    PVOID DxgkDdiConnectDoorbell;
    PVOID DxgkDdiDisconnectDoorbell;
    PVOID DxgkDdiDestroyDoorbell;
    PVOID DxgkDdiNotifyWorkSubmission;
    PVOID Reserved4;
    PVOID DxgkDdiCreateMemoryBasis;
    PVOID DxgkDdiDestroyMemoryBasis;
    PVOID DxgkDdiStartDirtyTracking;
    PVOID DxgkDdiStopDirtyTracking;
    PVOID DxgkDdiQueryDirtyBitData;
    PVOID DxgkDdiPrepareLiveMigration;
    PVOID DxgkDdiSaveImmutableMigrationData;
    PVOID DxgkDdiSaveMutableMigrationData;
    PVOID DxgkDdiEndLiveMigration;
    PVOID DxgkDdiRestoreImmutableMigrationData;
    PVOID DxgkDdiRestoreMutableMigrationData;
    PVOID DxgkDdiWriteVirtualizedInterrupt;
    PVOID DxgkDdiSetVirtualGpuResources2;
    PVOID DxgkDdiSetVirtualFunctionPauseState;
    PVOID DxgkDdiOpenNativeFence;
    PVOID DxgkDdiCloseNativeFence;
    PVOID DxgkDdiSetNativeFenceLogBuffer;
    PVOID DxgkDdiUpdateNativeFenceLogs;
    PVOID DxgkDdiCollectDbgInfo2;
    PVOID DxgkDdiNotifyContextPriorityChange;
    PVOID DxgkDdiResetDisplayEngine;
} DRIVER_INITIALIZATION_DATA, *PDRIVER_INITIALIZATION_DATA;

EXTERN_C_START

/* Tells vidmm the driver's table. Called from DriverEntry. */
NTSTATUS DxgkInitialize(PDRIVER_OBJECT DriverObject, PUNICODE_STRING RegistryPath,
                        PDRIVER_INITIALIZATION_DATA DriverInitializationData);

/* The driver's entry, which the driver defines and vidmm calls once. */
NTSTATUS DriverEntry(PDRIVER_OBJECT DriverObject, PUNICODE_STRING RegistryPath);

EXTERN_C_END

#endif
