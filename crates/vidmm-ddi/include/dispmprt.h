/*
 * The entry of a display miniport driver: its table of functions, and Dxgkrnl's. Written for vidmm from public documentation.
 *
 * The layouts of DRIVER_INITIALIZATION_DATA, DXGKRNL_INTERFACE, DXGK_START_INFO and DXGK_DEVICE_INFO have one source each. A
 * function that vidmm never calls, or does not have, is a PVOID here; those of DXGKRNL_INTERFACE that vidmm does not have are NULL.
 */
#ifndef VIDMM_DISPMPRT_H
#define VIDMM_DISPMPRT_H

#include "d3dkmddi.h"
#include "ntddk.h"

typedef struct _DXGK_START_INFO {
    ULONG RequiredDmaQueueEntry;
    GUID AdapterGuid;
    LUID AdapterLuid;
} DXGK_START_INFO, *PDXGK_START_INFO;

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
    PVOID TranslatedResourceList; /* NULL: there is no bus */
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

typedef BOOLEAN KSYNCHRONIZE_ROUTINE(PVOID SynchronizeContext);
typedef KSYNCHRONIZE_ROUTINE *PKSYNCHRONIZE_ROUTINE;

/* ---- Dxgkrnl's functions ---- */

typedef PVOID DXGKCB_GETHANDLEDATA(const DXGKARGCB_GETHANDLEDATA *pGetHandleData);
typedef DXGKCB_GETHANDLEDATA *DXGKCB_GETHANDLEDATA_PTR;

typedef VOID DXGKCB_NOTIFYINTERRUPT(HANDLE hAdapter, const DXGKARGCB_NOTIFY_INTERRUPT_DATA *pData);
typedef DXGKCB_NOTIFYINTERRUPT *DXGKCB_NOTIFYINTERRUPT_PTR;

typedef VOID DXGKCB_NOTIFYDPC(HANDLE hAdapter);
typedef DXGKCB_NOTIFYDPC *DXGKCB_NOTIFYDPC_PTR;

typedef BOOLEAN DXGKCB_QUEUEDPC(HANDLE DeviceHandle);
typedef DXGKCB_QUEUEDPC *DXGKCB_QUEUEDPC_PTR;

typedef NTSTATUS DXGKCB_GETDEVICEINFORMATION(HANDLE DeviceHandle, PDXGK_DEVICE_INFO DeviceInfo);
typedef DXGKCB_GETDEVICEINFORMATION *DXGKCB_GETDEVICEINFORMATION_PTR;

typedef NTSTATUS DXGKCB_SYNCHRONIZEEXECUTION(HANDLE DeviceHandle, PKSYNCHRONIZE_ROUTINE SynchronizeRoutine, PVOID Context, ULONG MessageNumber, PBOOLEAN ReturnValue);
typedef DXGKCB_SYNCHRONIZEEXECUTION *DXGKCB_SYNCHRONIZEEXECUTION_PTR;

typedef struct _DXGKRNL_INTERFACE {
    ULONG Size;
    ULONG Version;
    HANDLE DeviceHandle;
    PVOID DxgkCbEvalAcpiMethod;
    DXGKCB_GETDEVICEINFORMATION_PTR DxgkCbGetDeviceInformation;
    PVOID DxgkCbIndicateChildStatus;
    PVOID DxgkCbMapMemory;
    DXGKCB_QUEUEDPC_PTR DxgkCbQueueDpc;
    PVOID DxgkCbQueryServices;
    PVOID DxgkCbReadDeviceSpace;
    DXGKCB_SYNCHRONIZEEXECUTION_PTR DxgkCbSynchronizeExecution;
    PVOID DxgkCbUnmapMemory;
    PVOID DxgkCbWriteDeviceSpace;
    PVOID DxgkCbIsDevicePresent;
    DXGKCB_GETHANDLEDATA_PTR DxgkCbGetHandleData;
    PVOID DxgkCbGetHandleParent;
    PVOID DxgkCbEnumHandleChildren;
    DXGKCB_NOTIFYINTERRUPT_PTR DxgkCbNotifyInterrupt;
    DXGKCB_NOTIFYDPC_PTR DxgkCbNotifyDpc;
    PVOID DxgkCbQueryVidPnInterface;
    PVOID DxgkCbQueryMonitorInterface;
    PVOID DxgkCbGetCaptureAddress;
    PVOID DxgkCbLogEtwEvent;
    PVOID DxgkCbExcludeAdapterAccess;
    PVOID DxgkCbCreateContextAllocation;
    PVOID DxgkCbDestroyContextAllocation;
    PVOID DxgkCbSetPowerComponentActive;
    PVOID DxgkCbSetPowerComponentIdle;
    PVOID DxgkCbAcquirePostDisplayOwnership;
    PVOID DxgkCbPowerRuntimeControlRequest;
    PVOID DxgkCbSetPowerComponentLatency;
    PVOID DxgkCbSetPowerComponentResidency;
    PVOID DxgkCbCompleteFStateTransition;
    PVOID DxgkCbCompletePStateTransition;
    PVOID DxgkCbMapContextAllocation;
    PVOID DxgkCbUpdateContextAllocation;
    PVOID DxgkCbReserveGpuVirtualAddressRange;
    PVOID DxgkCbAcquireHandleData;
    PVOID DxgkCbReleaseHandleData;
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
} DXGKRNL_INTERFACE, *PDXGKRNL_INTERFACE;

/* ---- The driver's functions ---- */

typedef NTSTATUS DXGKDDI_ADDDEVICE(const PDEVICE_OBJECT PhysicalDeviceObject, PVOID *MiniportDeviceContext);
typedef DXGKDDI_ADDDEVICE *PDXGKDDI_ADDDEVICE;

typedef NTSTATUS DXGKDDI_STARTDEVICE(const PVOID MiniportDeviceContext, PDXGK_START_INFO DxgkStartInfo, PDXGKRNL_INTERFACE DxgkInterface, PULONG NumberOfVideoPresentSources, PULONG NumberOfChildren);
typedef DXGKDDI_STARTDEVICE *PDXGKDDI_STARTDEVICE;

typedef NTSTATUS DXGKDDI_STOPDEVICE(const PVOID MiniportDeviceContext);
typedef DXGKDDI_STOPDEVICE *PDXGKDDI_STOPDEVICE;

typedef NTSTATUS DXGKDDI_REMOVEDEVICE(const PVOID MiniportDeviceContext);
typedef DXGKDDI_REMOVEDEVICE *PDXGKDDI_REMOVEDEVICE;

typedef BOOLEAN DXGKDDI_INTERRUPTROUTINE(const PVOID MiniportDeviceContext, ULONG MessageNumber);
typedef DXGKDDI_INTERRUPTROUTINE *PDXGKDDI_INTERRUPTROUTINE;

typedef VOID DXGKDDI_DPCROUTINE(const PVOID MiniportDeviceContext);
typedef DXGKDDI_DPCROUTINE *PDXGKDDI_DPCROUTINE;

typedef VOID DXGKDDI_RESETDEVICE(const PVOID MiniportDeviceContext);
typedef DXGKDDI_RESETDEVICE *PDXGKDDI_RESETDEVICE;

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
    PDXGKDDI_ADDDEVICE DxgkDdiAddDevice;
    PDXGKDDI_STARTDEVICE DxgkDdiStartDevice;
    PDXGKDDI_STOPDEVICE DxgkDdiStopDevice;
    PDXGKDDI_REMOVEDEVICE DxgkDdiRemoveDevice;
    PVOID DxgkDdiDispatchIoRequest;
    PDXGKDDI_INTERRUPTROUTINE DxgkDdiInterruptRoutine;
    PDXGKDDI_DPCROUTINE DxgkDdiDpcRoutine;
    PVOID DxgkDdiQueryChildRelations;
    PVOID DxgkDdiQueryChildStatus;
    PVOID DxgkDdiQueryDeviceDescriptor;
    PVOID DxgkDdiSetPowerState;
    PVOID DxgkDdiNotifyAcpiEvent;
    PDXGKDDI_RESETDEVICE DxgkDdiResetDevice;
    PDXGKDDI_UNLOAD DxgkDdiUnload;
    PVOID DxgkDdiQueryInterface;
    PVOID DxgkDdiControlEtwLogging;
    PDXGKDDI_QUERYADAPTERINFO DxgkDdiQueryAdapterInfo;
    PDXGKDDI_CREATEDEVICE DxgkDdiCreateDevice;
    PDXGKDDI_CREATEALLOCATION DxgkDdiCreateAllocation;
    PDXGKDDI_DESTROYALLOCATION DxgkDdiDestroyAllocation;
    PVOID DxgkDdiDescribeAllocation;
    PDXGKDDI_GETSTANDARDALLOCATIONDRIVERDATA DxgkDdiGetStandardAllocationDriverData;
    PVOID DxgkDdiAcquireSwizzlingRange;
    PVOID DxgkDdiReleaseSwizzlingRange;
    PDXGKDDI_PATCH DxgkDdiPatch;
    PDXGKDDI_SUBMITCOMMAND DxgkDdiSubmitCommand;
    PDXGKDDI_PREEMPTCOMMAND DxgkDdiPreemptCommand;
    PDXGKDDI_BUILDPAGINGBUFFER DxgkDdiBuildPagingBuffer;
    PVOID DxgkDdiSetPalette;
    PVOID DxgkDdiSetPointerPosition;
    PVOID DxgkDdiSetPointerShape;
    PDXGKDDI_RESETFROMTIMEOUT DxgkDdiResetFromTimeout;
    PDXGKDDI_RESTARTFROMTIMEOUT DxgkDdiRestartFromTimeout;
    PVOID DxgkDdiEscape;
    PVOID DxgkDdiCollectDbgInfo;
    PVOID DxgkDdiQueryCurrentFence;
    PVOID DxgkDdiIsSupportedVidPn;
    PVOID DxgkDdiRecommendFunctionalVidPn;
    PVOID DxgkDdiEnumVidPnCofuncModality;
    PVOID DxgkDdiSetVidPnSourceAddress;
    PVOID DxgkDdiSetVidPnSourceVisibility;
    PVOID DxgkDdiCommitVidPn;
    PVOID DxgkDdiUpdateActiveVidPnPresentPath;
    PVOID DxgkDdiRecommendMonitorModes;
    PVOID DxgkDdiRecommendVidPnTopology;
    PVOID DxgkDdiGetScanLine;
    PVOID DxgkDdiStopCapture;
    PVOID DxgkDdiControlInterrupt;
    PVOID DxgkDdiCreateOverlay;
    PDXGKDDI_DESTROYDEVICE DxgkDdiDestroyDevice;
    PDXGKDDI_OPENALLOCATION DxgkDdiOpenAllocation;
    PDXGKDDI_CLOSEALLOCATION DxgkDdiCloseAllocation;
    PDXGKDDI_RENDER DxgkDdiRender;
    PVOID DxgkDdiPresent;
    PVOID DxgkDdiUpdateOverlay;
    PVOID DxgkDdiFlipOverlay;
    PVOID DxgkDdiDestroyOverlay;
    PDXGKDDI_CREATECONTEXT DxgkDdiCreateContext;
    PDXGKDDI_DESTROYCONTEXT DxgkDdiDestroyContext;
    PVOID DxgkDdiLinkDevice;
    PVOID DxgkDdiSetDisplayPrivateDriverFormat;
    PVOID DxgkDdiDescribePageTable;
    PVOID DxgkDdiUpdatePageTable;
    PVOID DxgkDdiUpdatePageDirectory;
    PVOID DxgkDdiMovePageDirectory;
    PVOID DxgkDdiSubmitRender;
    PVOID DxgkDdiCreateAllocation2;
    PVOID DxgkDdiRenderKm;
    PVOID Reserved;
    PVOID DxgkDdiQueryVidPnHWCapability;
    PVOID DxgkDdiSetPowerComponentFState;
    PDXGKDDI_QUERYDEPENDENTENGINEGROUP DxgkDdiQueryDependentEngineGroup;
    PVOID DxgkDdiQueryEngineStatus;
    PDXGKDDI_RESETENGINE DxgkDdiResetEngine;
    PVOID DxgkDdiStopDeviceAndReleasePostDisplayOwnership;
    PVOID DxgkDdiSystemDisplayEnable;
    PVOID DxgkDdiSystemDisplayWrite;
    PVOID DxgkDdiCancelCommand;
    PVOID DxgkDdiGetChildContainerId;
    PVOID DxgkDdiPowerRuntimeControlRequest;
    PVOID DxgkDdiSetVidPnSourceAddressWithMultiPlaneOverlay;
    PVOID DxgkDdiNotifySurpriseRemoval;
    PDXGKDDI_GETNODEMETADATA DxgkDdiGetNodeMetadata;
    PVOID DxgkDdiSetPowerPState;
    PVOID DxgkDdiControlInterrupt2;
    PVOID DxgkDdiCheckMultiPlaneOverlaySupport;
    PVOID DxgkDdiCalibrateGpuClock;
    PVOID DxgkDdiFormatHistoryBuffer;
    PVOID DxgkDdiRenderGdi;
    PDXGKDDI_SUBMITCOMMANDVIRTUAL DxgkDdiSubmitCommandVirtual;
    PDXGKDDI_SETROOTPAGETABLE DxgkDdiSetRootPageTable;
    PDXGKDDI_GETROOTPAGETABLESIZE DxgkDdiGetRootPageTableSize;
    PVOID DxgkDdiMapCpuHostAperture;
    PVOID DxgkDdiUnmapCpuHostAperture;
    PVOID DxgkDdiCheckMultiPlaneOverlaySupport2;
    PDXGKDDI_CREATEPROCESS DxgkDdiCreateProcess;
    PDXGKDDI_DESTROYPROCESS DxgkDdiDestroyProcess;
    PVOID DxgkDdiSetVidPnSourceAddressWithMultiPlaneOverlay2;
    PVOID Reserved1;
    PVOID Reserved2;
    PVOID DxgkDdiPowerRuntimeSetDeviceHandle;
    PVOID DxgkDdiSetStablePowerState;
    PVOID DxgkDdiSetVideoProtectedRegion;
    PVOID DxgkDdiCheckMultiPlaneOverlaySupport3;
    PVOID DxgkDdiSetVidPnSourceAddressWithMultiPlaneOverlay3;
    PVOID DxgkDdiPostMultiPlaneOverlayPresent;
    PDXGKDDI_VALIDATEUPDATEALLOCATIONPROPERTY DxgkDdiValidateUpdateAllocationProperty;
    PVOID DxgkDdiControlModeBehavior;
    PVOID DxgkDdiUpdateMonitorLinkInfo;
    PVOID DxgkDdiCreateHwContext;
    PVOID DxgkDdiDestroyHwContext;
    PVOID DxgkDdiCreateHwQueue;
    PVOID DxgkDdiDestroyHwQueue;
    PVOID DxgkDdiSubmitCommandToHwQueue;
    PVOID DxgkDdiSwitchToHwContextList;
    PVOID DxgkDdiResetHwEngine;
    PVOID DxgkDdiCreatePeriodicFrameNotification;
    PVOID DxgkDdiDestroyPeriodicFrameNotification;
    PVOID DxgkDdiSetTimingsFromVidPn;
    PVOID DxgkDdiSetTargetGamma;
    PVOID DxgkDdiSetTargetContentType;
    PVOID DxgkDdiSetTargetAnalogCopyProtection;
    PVOID DxgkDdiSetTargetAdjustedColorimetry;
    PVOID DxgkDdiDisplayDetectControl;
    PVOID DxgkDdiQueryConnectionChange;
    PVOID DxgkDdiExchangePreStartInfo;
    PVOID DxgkDdiGetMultiPlaneOverlayCaps;
    PVOID DxgkDdiGetPostCompositionCaps;
    PVOID DxgkDdiUpdateHwContextState;
    PVOID DxgkDdiCreateProtectedSession;
    PVOID DxgkDdiDestroyProtectedSession;
    PVOID DxgkDdiSetSchedulingLogBuffer;
    PVOID DxgkDdiSetupPriorityBands;
    PVOID DxgkDdiNotifyFocusPresent;
    PVOID DxgkDdiSetContextSchedulingProperties;
    PVOID DxgkDdiSuspendContext;
    PVOID DxgkDdiResumeContext;
    PVOID DxgkDdiSetVirtualMachineData;
    PVOID DxgkDdiBeginExclusiveAccess;
    PVOID DxgkDdiEndExclusiveAccess;
    PVOID DxgkDdiQueryDiagnosticTypesSupport;
    PVOID DxgkDdiControlDiagnosticReporting;
    PVOID DxgkDdiResumeHwEngine;
    PVOID DxgkDdiSignalMonitoredFence;
    PVOID DxgkDdiPresentToHwQueue;
    PVOID DxgkDdiValidateSubmitCommand;
    PVOID DxgkDdiSetTargetAdjustedColorimetry2;
    PVOID DxgkDdiSetTrackedWorkloadPowerLevel;
    PVOID DxgkDdiSaveMemoryForHotUpdate;
    PVOID DxgkDdiRestoreMemoryForHotUpdate;
    PVOID DxgkDdiCollectDiagnosticInfo;
    PVOID Reserved3;
    PVOID DxgkDdiControlInterrupt3;
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
