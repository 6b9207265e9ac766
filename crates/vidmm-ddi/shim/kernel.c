/*
 * The rest of the kernel: exceptions, lookaside lists, bit maps, texts, and functions without a subject here.
 */
/* For dladdr and the registers of a fault. */
#define _GNU_SOURCE
#include "shim.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

/* ---- Structured exceptions ---- */

static __thread VIDMM_FRAME *g_Frame;
static __thread NTSTATUS g_ExceptionCode;
/* A __try has raised an exception, and the handler has not run. */
static __thread BOOLEAN g_HasRaised;
static struct sigaction g_BeforeSegv, g_BeforeBus;

NTSTATUS VidmmExceptionCode(VOID) {
    return g_ExceptionCode;
}

__attribute__((noreturn)) static void Raise(void) {
    VIDMM_FRAME *Frame = g_Frame;
    if (Frame == NULL) {
        fprintf(stderr, "an exception with status %#x has no handler\n", (unsigned)g_ExceptionCode);
        VidmmSayLastWords("an exception with status %#x has no handler", (unsigned)g_ExceptionCode);
        abort();
    }
    g_Frame = Frame->Before;
    g_HasRaised = TRUE;
    siglongjmp(Frame->Place, 1);
}

VOID ExRaiseStatus(NTSTATUS Status) {
    g_ExceptionCode = Status;
    Raise();
}

/* Two structs that live as long as a call of StartDevice: a driver may read behind the end. */
static struct {
    const char *Name;
    BYTE *Pages;
    BYTE *Object;
    SIZE_T Size;
} g_Guarded[] = {{"DXGKRNL_INTERFACE", NULL, NULL, 0}, {"DXGK_START_INFO", NULL, NULL, 0}};

VOID *VidmmGuardedCopy(UINT Number, const VOID *Object, SIZE_T Size, BOOLEAN IsAtEnd) {
    SIZE_T Room = PAGE_SIZE;
    if (g_Guarded[Number].Pages == NULL) {
        VOID *Pages = mmap(NULL, 3 * PAGE_SIZE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (Pages == MAP_FAILED || mprotect((BYTE *)Pages + PAGE_SIZE, PAGE_SIZE, PROT_READ | PROT_WRITE) != 0) {
            return NULL;
        }
        g_Guarded[Number].Pages = (BYTE *)Pages;
    }
    if (Size > Room) {
        return NULL;
    }
    g_Guarded[Number].Object = g_Guarded[Number].Pages + PAGE_SIZE + (IsAtEnd ? Room - Size : 0);
    g_Guarded[Number].Size = Size;
    return memcpy(g_Guarded[Number].Object, Object, Size);
}

/* Says the access beside a guarded struct; FALSE if the address is beside none. */
static BOOLEAN SayGuarded(const BYTE *Address, const char *Library, SIZE_T Offset) {
    UINT Number;
    for (Number = 0; Number < sizeof(g_Guarded) / sizeof(g_Guarded[0]); Number++) {
        const BYTE *Object = g_Guarded[Number].Object, *Pages = g_Guarded[Number].Pages;
        if (Pages != NULL && Address >= Pages && Address < Pages + 3 * PAGE_SIZE) {
            BOOLEAN IsBehind = Address >= Object + g_Guarded[Number].Size;
            SIZE_T Distance = IsBehind ? (SIZE_T)(Address - Object) - g_Guarded[Number].Size + 1 : (SIZE_T)(Object - Address);
            VidmmSayLastWords("%s+%#zx accesses byte %zu %s %s", Library, Offset, Distance, IsBehind ? "behind" : "before",
                              g_Guarded[Number].Name);
            return TRUE;
        }
    }
    return FALSE;
}

static const VOID *InstructionOf(const VOID *Context) {
#if defined(__x86_64__) && defined(REG_RIP)
    return (const VOID *)((const ucontext_t *)Context)->uc_mcontext.gregs[REG_RIP];
#else
    (void)Context;
    return NULL;
#endif
}

/* Where an instruction is, in its library: no address of the process. */
static void SayPlace(const siginfo_t *Info, const VOID *Context) {
    const VOID *Instruction = InstructionOf(Context);
    const char *Name;
    SIZE_T Offset;
    Dl_info Library;
    if (Instruction == NULL || !dladdr(Instruction, &Library) || Library.dli_fname == NULL) {
        VidmmSayLastWords("an instruction outside of any library");
        return;
    }
    Name = strrchr(Library.dli_fname, '/');
    Name = Name != NULL ? Name + 1 : Library.dli_fname;
    Offset = (SIZE_T)((ULONG_PTR)Instruction - (ULONG_PTR)Library.dli_fbase);
    if (VidmmHasVanished(Info->si_addr)) {
        VidmmSayLastWords("%s+%#zx reads memory of the user that has vanished, without __try (DRV-12)", Name, Offset);
    } else if (!SayGuarded((const BYTE *)Info->si_addr, Name, Offset)) {
        VidmmSayLastWords("%s+%#zx%s", Name, Offset, (ULONG_PTR)Info->si_addr < 0x10000 ? " through a null pointer" : "");
    }
}

/* Where the instruction of a fault is: no address of the process. */
static void TellPlace(const VOID *Context, char *Text, SIZE_T Size) {
    Dl_info Library;
    const VOID *Instruction = InstructionOf(Context);
    const char *Name;
    if (Instruction == NULL || !dladdr(Instruction, &Library) || Library.dli_fname == NULL) {
        snprintf(Text, Size, "an instruction outside of any library");
        return;
    }
    Name = strrchr(Library.dli_fname, '/');
    snprintf(Text, Size, "%s+%#zx", Name != NULL ? Name + 1 : Library.dli_fname,
             (SIZE_T)((ULONG_PTR)Instruction - (ULONG_PTR)Library.dli_fbase));
}

/* Pageable pool comes back. The level is that of the thread that has accessed it. */
static BOOLEAN PageIn(const siginfo_t *Info, const VOID *Context) {
    char Place[128];
    if (!VidmmPageIn(Info->si_addr)) {
        return FALSE;
    }
    if (g_VidmmIrql >= DISPATCH_LEVEL) {
        TellPlace(Context, Place, sizeof(Place));
        VidmmReport("SHIM-IRQL", "pageable pool is accessed at DISPATCH_LEVEL or above, by %s (DRV-15)", Place);
    }
    return TRUE;
}

/* An MDL whose packet has ended comes back. */
static BOOLEAN ShowMdl(const siginfo_t *Info, const VOID *Context) {
    char Place[128];
    if (!VidmmShowMdlMemory(Info->si_addr)) {
        return FALSE;
    }
    TellPlace(Context, Place, sizeof(Place));
    VidmmReport("SHIM-MDL", "%s accesses the MDL of an operation whose packet has ended (lifetime assumed, DRV-03)", Place);
    return TRUE;
}

static void OnFault(int Signal, siginfo_t *Info, VOID *Context) {
    if (PageIn(Info, Context) || ShowMdl(Info, Context) || VidmmReadChanging(Info->si_addr, Context)) {
        return;
    }
    if (g_Frame == NULL) {
        /* No frame of the driver: the access comes again, and is a crash. */
        SayPlace(Info, Context);
        sigaction(Signal, Signal == SIGBUS ? &g_BeforeBus : &g_BeforeSegv, NULL);
        return;
    }
    ExRaiseStatus(STATUS_ACCESS_VIOLATION);
}

void VidmmInstallFaultHandlers(void) {
    struct sigaction Action;
    memset(&Action, 0, sizeof(Action));
    Action.sa_sigaction = OnFault;
    Action.sa_flags = SA_NODEFER | SA_SIGINFO | SA_ONSTACK;
    sigaction(SIGSEGV, &Action, &g_BeforeSegv);
    sigaction(SIGBUS, &Action, &g_BeforeBus);
}

VOID VidmmPushFrame(VIDMM_FRAME *Frame) {
    if (VidmmHasRaised()) {
        VidmmReport("SHIM-TRY", "a __try begins before the handler of a __try that has raised: put the body of the loop into braces");
    }
    Frame->Before = g_Frame;
    g_Frame = Frame;
}

VOID VidmmPopFrame(VIDMM_FRAME *Frame) {
    if (g_Frame == Frame) {
        g_Frame = Frame->Before;
    }
}

int VidmmHasRaised(VOID) {
    BOOLEAN HasRaised = g_HasRaised;
    g_HasRaised = FALSE;
    return HasRaised;
}

int VidmmFilter(int Decision) {
    if (Decision == EXCEPTION_CONTINUE_SEARCH) {
        Raise();
    }
    return 1;
}

/* The memory of users is vidmm's memory. */
VOID ProbeForRead(const volatile VOID *Address, SIZE_T Length, ULONG Alignment) {
    if (Length != 0 && (ULONG_PTR)Address % Alignment != 0) {
        ExRaiseStatus(STATUS_DATATYPE_MISALIGNMENT);
    }
    if (Length != 0 && (Address == NULL || (ULONG_PTR)Address + Length < (ULONG_PTR)Address)) {
        ExRaiseStatus(STATUS_ACCESS_VIOLATION);
    }
}

VOID ProbeForWrite(volatile VOID *Address, SIZE_T Length, ULONG Alignment) {
    ProbeForRead(Address, Length, Alignment);
}

/* ---- Lookaside lists ---- */

VOID ExInitializeNPagedLookasideList(PNPAGED_LOOKASIDE_LIST Lookaside, PVOID Allocate, PVOID Free, ULONG Flags, SIZE_T Size,
                                     ULONG Tag, USHORT Depth) {
    (void)Allocate;
    (void)Free;
    (void)Flags;
    (void)Depth;
    Lookaside->Size = Size;
    Lookaside->Tag = Tag;
}

VOID ExDeleteNPagedLookasideList(PNPAGED_LOOKASIDE_LIST Lookaside) {
    (void)Lookaside;
}

PVOID ExAllocateFromNPagedLookasideList(PNPAGED_LOOKASIDE_LIST Lookaside) {
    return ExAllocatePoolWithTag(NonPagedPoolNx, Lookaside->Size, Lookaside->Tag);
}

VOID ExFreeToNPagedLookasideList(PNPAGED_LOOKASIDE_LIST Lookaside, PVOID Entry) {
    ExFreePoolWithTag(Entry, Lookaside->Tag);
}

PVOID ExAllocatePoolUninitialized(POOL_TYPE PoolType, SIZE_T NumberOfBytes, ULONG Tag) {
    return ExAllocatePoolWithTag(PoolType, NumberOfBytes, Tag);
}

/* ---- Bit maps ---- */

VOID RtlInitializeBitMap(PRTL_BITMAP BitMap, PULONG Buffer, ULONG SizeOfBitMap) {
    BitMap->Buffer = Buffer;
    BitMap->SizeOfBitMap = SizeOfBitMap;
}

VOID RtlClearAllBits(PRTL_BITMAP BitMap) {
    memset(BitMap->Buffer, 0, (BitMap->SizeOfBitMap + 31) / 32 * sizeof(ULONG));
}

VOID RtlSetBit(PRTL_BITMAP BitMap, ULONG Bit) {
    BitMap->Buffer[Bit / 32] |= 1u << Bit % 32;
}

VOID RtlClearBit(PRTL_BITMAP BitMap, ULONG Bit) {
    BitMap->Buffer[Bit / 32] &= ~(1u << Bit % 32);
}

VOID RtlSetBits(PRTL_BITMAP BitMap, ULONG First, ULONG Count) {
    while (Count-- > 0) {
        RtlSetBit(BitMap, First++);
    }
}

VOID RtlClearBits(PRTL_BITMAP BitMap, ULONG First, ULONG Count) {
    while (Count-- > 0) {
        RtlClearBit(BitMap, First++);
    }
}

BOOLEAN RtlTestBit(PRTL_BITMAP BitMap, ULONG Bit) {
    return (BitMap->Buffer[Bit / 32] >> Bit % 32 & 1) != 0;
}

ULONG RtlFindClearBitsAndSet(PRTL_BITMAP BitMap, ULONG Count, ULONG Hint) {
    ULONG Tried, Length, First, Size = BitMap->SizeOfBitMap;
    for (Tried = 0; Tried < Size && Count <= Size; Tried++) {
        First = (Hint + Tried) % Size;
        for (Length = 0; Length < Count && First + Length < Size && !RtlTestBit(BitMap, First + Length); Length++) {
        }
        if (Length == Count) {
            RtlSetBits(BitMap, First, Count);
            return First;
        }
    }
    return 0xFFFFFFFF;
}

/* ---- Texts and sums ---- */

SIZE_T RtlCompareMemory(const VOID *One, const VOID *Two, SIZE_T Length) {
    SIZE_T At = 0;
    while (At < Length && ((const BYTE *)One)[At] == ((const BYTE *)Two)[At]) {
        At++;
    }
    return At;
}

NTSTATUS RtlSizeTAdd(SIZE_T One, SIZE_T Two, PSIZE_T Result) {
    return __builtin_add_overflow(One, Two, Result) ? STATUS_INTEGER_OVERFLOW : STATUS_SUCCESS;
}

NTSTATUS RtlSizeTMult(SIZE_T One, SIZE_T Two, PSIZE_T Result) {
    return __builtin_mul_overflow(One, Two, Result) ? STATUS_INTEGER_OVERFLOW : STATUS_SUCCESS;
}

NTSTATUS RtlULongAdd(ULONG One, ULONG Two, PULONG Result) {
    return __builtin_add_overflow(One, Two, Result) ? STATUS_INTEGER_OVERFLOW : STATUS_SUCCESS;
}

VOID RtlInitAnsiString(PANSI_STRING String, PCSZ Text) {
    String->Buffer = (PCHAR)(ULONG_PTR)Text;
    String->Length = (USHORT)(Text != NULL ? strlen(Text) : 0);
    String->MaximumLength = (USHORT)(String->Length + (Text != NULL ? 1 : 0));
}

NTSTATUS RtlAnsiStringToUnicodeString(PUNICODE_STRING Destination, PANSI_STRING Source, BOOLEAN Allocate) {
    USHORT Bytes = (USHORT)(Source->Length * sizeof(WCHAR)), At;
    if (Allocate) {
        Destination->MaximumLength = (USHORT)(Bytes + sizeof(WCHAR));
        Destination->Buffer = (PWSTR)ExAllocatePoolZero(PagedPool, Destination->MaximumLength, 0);
    }
    if (Destination->Buffer == NULL || Destination->MaximumLength < Bytes) {
        return Allocate ? STATUS_NO_MEMORY : STATUS_BUFFER_OVERFLOW;
    }
    for (At = 0; At < Source->Length; At++) {
        Destination->Buffer[At] = (UCHAR)Source->Buffer[At];
    }
    Destination->Length = Bytes;
    return STATUS_SUCCESS;
}

VOID RtlFreeUnicodeString(PUNICODE_STRING String) {
    if (String->Buffer != NULL) {
        ExFreePool(String->Buffer);
        memset(String, 0, sizeof(*String));
    }
}

NTSTATUS RtlIntegerToUnicodeString(ULONG Value, ULONG Base, PUNICODE_STRING String) {
    char Text[16];
    ANSI_STRING Ansi;
    snprintf(Text, sizeof(Text), Base == 16 ? "%X" : "%u", (unsigned)Value);
    RtlInitAnsiString(&Ansi, Text);
    return RtlAnsiStringToUnicodeString(String, &Ansi, FALSE);
}

NTSTATUS RtlStringCbVPrintfA(PSTR Destination, SIZE_T Bytes, PCSTR Format, va_list Arguments) {
    int Length = vsnprintf(Destination, Bytes, Format, Arguments);
    return Length < 0 || (SIZE_T)Length >= Bytes ? STATUS_BUFFER_OVERFLOW : STATUS_SUCCESS;
}

NTSTATUS RtlStringCchPrintfA(PSTR Destination, SIZE_T Characters, PCSTR Format, ...) {
    va_list Arguments;
    NTSTATUS Status;
    va_start(Arguments, Format);
    Status = RtlStringCbVPrintfA(Destination, Characters, Format, Arguments);
    va_end(Arguments);
    return Status;
}

NTSTATUS RtlStringCbPrintfW(PWSTR Destination, SIZE_T Bytes, PCWSTR Format, ...) {
    (void)Format;
    if (Bytes >= sizeof(WCHAR)) {
        *Destination = 0;
    }
    return STATUS_NOT_SUPPORTED;
}

NTSTATUS RtlUnicodeStringPrintf(PUNICODE_STRING Destination, PCWSTR Format, ...) {
    (void)Format;
    Destination->Length = 0;
    return STATUS_NOT_SUPPORTED;
}

/* ---- Threads, processes, time ---- */

static PVOID g_ObjectType;
POBJECT_TYPE *PsThreadType = (POBJECT_TYPE *)&g_ObjectType;
POBJECT_TYPE *MmSectionObjectType = (POBJECT_TYPE *)&g_ObjectType;

/* A thread is named by the address of a variable of the thread. */
PKTHREAD KeGetCurrentThread(VOID) {
    return (PKTHREAD)&g_VidmmIrql;
}

PEPROCESS PsGetCurrentProcess(VOID) {
    return (PEPROCESS)&g_ObjectType;
}

HANDLE PsGetCurrentProcessId(VOID) {
    return (HANDLE)4;
}

PACCESS_TOKEN PsReferencePrimaryToken(PEPROCESS Process) {
    return Process;
}

VOID PsDereferencePrimaryToken(PACCESS_TOKEN Token) {
    (void)Token;
}

KPROCESSOR_MODE ExGetPreviousMode(VOID) {
    return KernelMode;
}

KPRIORITY KeSetPriorityThread(PKTHREAD Thread, KPRIORITY Priority) {
    (void)Thread;
    (void)Priority;
    return 8;
}

ULONG KeGetCurrentProcessorNumber(VOID) {
    return 0;
}

ULONG KeQueryTimeIncrement(VOID) {
    return 156250;
}

VOID KeQueryTickCount(PLARGE_INTEGER TickCount) {
    TickCount->QuadPart = (LONGLONG)(KeQueryInterruptTime() / KeQueryTimeIncrement());
}

NTSTATUS KeSaveFloatingPointState(PKFLOATING_SAVE Save) {
    (void)Save;
    return STATUS_SUCCESS;
}

NTSTATUS KeRestoreFloatingPointState(PKFLOATING_SAVE Save) {
    (void)Save;
    return STATUS_SUCCESS;
}

/* ---- Functions without a subject ---- */

VOID IoCompleteRequest(PIRP Irp, CHAR PriorityBoost) {
    (void)Irp;
    (void)PriorityBoost;
}

NTSTATUS IoCreateDevice(PDRIVER_OBJECT DriverObject, ULONG ExtensionSize, PUNICODE_STRING Name, ULONG DeviceType,
                        ULONG Characteristics, BOOLEAN Exclusive, PDEVICE_OBJECT *DeviceObject) {
    (void)DriverObject;
    (void)ExtensionSize;
    (void)Name;
    (void)DeviceType;
    (void)Characteristics;
    (void)Exclusive;
    *DeviceObject = NULL;
    return STATUS_NOT_SUPPORTED;
}

VOID IoDeleteDevice(PDEVICE_OBJECT DeviceObject) {
    (void)DeviceObject;
}

PKEVENT IoCreateNotificationEvent(PUNICODE_STRING Name, PHANDLE Handle) {
    (void)Name;
    *Handle = NULL;
    return NULL;
}

NTSTATUS IoCreateSymbolicLink(PUNICODE_STRING Link, PUNICODE_STRING Device) {
    (void)Link;
    (void)Device;
    return STATUS_NOT_SUPPORTED;
}

NTSTATUS IoDeleteSymbolicLink(PUNICODE_STRING Link) {
    (void)Link;
    return STATUS_NOT_SUPPORTED;
}

PIO_STACK_LOCATION IoGetCurrentIrpStackLocation(PIRP Irp) {
    (void)Irp;
    return NULL;
}

NTSTATUS IoGetDeviceObjectPointer(PUNICODE_STRING Name, ACCESS_MASK Access, PFILE_OBJECT *FileObject, PDEVICE_OBJECT *DeviceObject) {
    (void)Name;
    (void)Access;
    *FileObject = NULL;
    *DeviceObject = NULL;
    return STATUS_NOT_SUPPORTED;
}

NTSTATUS IoGetDeviceProperty(PDEVICE_OBJECT DeviceObject, DEVICE_REGISTRY_PROPERTY Property, ULONG Length, PVOID Buffer,
                             PULONG ResultLength) {
    (void)DeviceObject;
    (void)Property;
    (void)Length;
    (void)Buffer;
    *ResultLength = 0;
    return STATUS_NOT_SUPPORTED;
}

/* Every key is there, and all have the same values. */
NTSTATUS IoOpenDeviceRegistryKey(PDEVICE_OBJECT DeviceObject, ULONG Type, ACCESS_MASK Access, PHANDLE Key) {
    OBJECT_ATTRIBUTES Attributes;
    (void)DeviceObject;
    (void)Type;
    memset(&Attributes, 0, sizeof(Attributes));
    return ZwOpenKey(Key, Access, &Attributes);
}

ULONG HalGetBusDataByOffset(UINT BusDataType, ULONG Bus, ULONG Slot, PVOID Buffer, ULONG Offset, ULONG Length) {
    (void)BusDataType;
    (void)Bus;
    (void)Slot;
    (void)Buffer;
    (void)Offset;
    (void)Length;
    return 0;
}

ULONG HalSetBusDataByOffset(UINT BusDataType, ULONG Bus, ULONG Slot, PVOID Buffer, ULONG Offset, ULONG Length) {
    return HalGetBusDataByOffset(BusDataType, Bus, Slot, Buffer, Offset, Length);
}

NTSTATUS RtlQueryRegistryValues(ULONG RelativeTo, PCWSTR Path, PRTL_QUERY_REGISTRY_TABLE Table, PVOID Context, PVOID Environment) {
    (void)RelativeTo;
    (void)Path;
    (void)Table;
    (void)Context;
    (void)Environment;
    return STATUS_OBJECT_NAME_NOT_FOUND;
}

NTSTATUS ZwCreateFile(PHANDLE File, ACCESS_MASK Access, POBJECT_ATTRIBUTES Attributes, PIO_STATUS_BLOCK Status,
                      PLARGE_INTEGER AllocationSize, ULONG FileAttributes, ULONG Share, ULONG Disposition, ULONG Options,
                      PVOID EaBuffer, ULONG EaLength) {
    (void)Access;
    (void)Attributes;
    (void)Status;
    (void)AllocationSize;
    (void)FileAttributes;
    (void)Share;
    (void)Disposition;
    (void)Options;
    (void)EaBuffer;
    (void)EaLength;
    *File = NULL;
    return STATUS_NOT_SUPPORTED;
}

NTSTATUS ZwWriteFile(HANDLE File, HANDLE Event, PVOID ApcRoutine, PVOID ApcContext, PIO_STATUS_BLOCK Status, PVOID Buffer,
                     ULONG Length, PLARGE_INTEGER Offset, PULONG Key) {
    (void)File;
    (void)Event;
    (void)ApcRoutine;
    (void)ApcContext;
    (void)Status;
    (void)Buffer;
    (void)Length;
    (void)Offset;
    (void)Key;
    return STATUS_NOT_SUPPORTED;
}

NTSTATUS ZwSetValueKey(HANDLE Key, PUNICODE_STRING Name, ULONG TitleIndex, ULONG Type, PVOID Data, ULONG Size) {
    (void)Key;
    (void)Name;
    (void)TitleIndex;
    (void)Type;
    (void)Data;
    (void)Size;
    return STATUS_NOT_SUPPORTED;
}

NTSTATUS ZwQuerySystemInformation(UINT Class, PVOID Information, ULONG Length, PULONG ResultLength) {
    (void)Class;
    (void)Information;
    (void)Length;
    if (ResultLength != NULL) {
        *ResultLength = 0;
    }
    return STATUS_NOT_SUPPORTED;
}
