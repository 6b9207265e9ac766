/*
 * Memory and addresses: MDLs, contiguous memory, registers.
 */
#include "shim.h"

#include <stdlib.h>

/* The beginning of contiguous memory for a driver with few address bits. */
#define LOW_ADDRESS 0x10000000ull
/* Numbers of no page stand behind the last page of a list. */
#define GUARD_PAGES 64
#define NO_PAGE 0xDEAD00000000ull

/* A piece of memory with a physical address. */
typedef struct _PIECE {
    struct _PIECE *Next;
    BYTE *Bytes;
    SIZE_T Size;
    UINT64 Address;
    UINT64 Number;
    const char *Call;
} PIECE;

/* A mapping of an MDL, and the bytes of the pages at the last comparison. */
typedef struct _MAPPING {
    struct _MAPPING *Next;
    PMDL Mdl;
    BYTE *Bytes;
    BYTE *Seen;
    SIZE_T Pages;
} MAPPING;

/* With the lock held. */
static PIECE *g_Contiguous, *g_Registers;
/* The pages of operations are in the upper half of the machine's memory, and contiguous memory begins in the second quarter. */
static UINT64 g_Highest = (1ull << 34) - 1, g_FirstHigh = 1ull << 32, g_High = 1ull << 32, g_Low = LOW_ADDRESS;
/* Of all threads: the threads take turns. */
static MAPPING *g_Mappings;

void VidmmSetHighestAddressLocked(UINT64 HighestAddress) {
    g_Highest = HighestAddress;
    g_FirstHigh = g_High = HighestAddress / 4 + 1;
    g_Low = LOW_ADDRESS;
}

static void Lock(void) {
    pthread_mutex_lock(&g_VidmmLock);
}

static void Unlock(void) {
    pthread_mutex_unlock(&g_VidmmLock);
}

/* Pages of zeros. */
static BYTE *NewPages(SIZE_T Size) {
    SIZE_T Whole = ROUND_TO_PAGES(Size > 0 ? Size : 1);
    BYTE *Bytes = (BYTE *)aligned_alloc(PAGE_SIZE, Whole);
    if (Bytes != NULL) {
        memset(Bytes, 0, Whole);
    }
    return Bytes;
}

static PIECE *FindPiece(PIECE *First, const VOID *Address) {
    PIECE *Piece = First;
    while (Piece != NULL && (ULONG_PTR)Address - (ULONG_PTR)Piece->Bytes >= Piece->Size) {
        Piece = Piece->Next;
    }
    return Piece;
}

static PIECE *FindPhysical(PIECE *First, UINT64 Address, SIZE_T Size) {
    PIECE *Piece = First;
    while (Piece != NULL && (Address < Piece->Address || Address - Piece->Address >= Piece->Size ||
                             Size > Piece->Size - (Address - Piece->Address))) {
        Piece = Piece->Next;
    }
    return Piece;
}

/* ---- Contiguous memory ---- */

PVOID MmAllocateContiguousMemorySpecifyCache(SIZE_T NumberOfBytes, PHYSICAL_ADDRESS Lowest, PHYSICAL_ADDRESS Highest,
                                             PHYSICAL_ADDRESS BoundaryAddressMultiple, MEMORY_CACHING_TYPE CacheType) {
    PIECE *Piece = NULL;
    UINT64 *Next = (UINT64)Highest.QuadPart > g_FirstHigh ? &g_High : &g_Low;
    UINT64 Boundary = (UINT64)BoundaryAddressMultiple.QuadPart, Pages = ROUND_TO_PAGES(NumberOfBytes);
    (void)CacheType;
    VidmmCheckIrql("MmAllocateContiguousMemorySpecifyCache", DISPATCH_LEVEL);
    Lock();
    if (!VidmmFailsLocked() && NumberOfBytes > 0 && (Piece = (PIECE *)malloc(sizeof(*Piece))) != NULL) {
        Piece->Bytes = NewPages(NumberOfBytes);
        Piece->Size = NumberOfBytes;
        if (Boundary != 0 && *Next / Boundary != (*Next + Pages - 1) / Boundary) {
            *Next = (*Next / Boundary + 1) * Boundary;
        }
        Piece->Address = *Next > (UINT64)Lowest.QuadPart ? *Next : ROUND_TO_PAGES(Lowest.QuadPart);
        if (Piece->Bytes == NULL || Piece->Address + NumberOfBytes - 1 > (UINT64)Highest.QuadPart) {
            free(Piece->Bytes);
            free(Piece);
            Piece = NULL;
        } else {
            *Next = Piece->Address + Pages;
            Piece->Number = g_VidmmCounts.Allocations;
            Piece->Call = VidmmCall();
            Piece->Next = g_Contiguous;
            g_Contiguous = Piece;
            g_VidmmCounts.PoolBlocks++;
            g_VidmmCounts.PoolBytes += NumberOfBytes;
        }
    }
    Unlock();
    return Piece != NULL ? Piece->Bytes : NULL;
}

void VidmmAddContiguousLeaksLocked(UINT64 After) {
    const PIECE *Piece;
    for (Piece = g_Contiguous; Piece != NULL; Piece = Piece->Next) {
        if (Piece->Number > After) {
            VidmmAddLeakLocked(Piece->Number, Piece->Size, 0, Piece->Call);
        }
    }
}

PVOID MmAllocateContiguousMemory(SIZE_T NumberOfBytes, PHYSICAL_ADDRESS HighestAcceptableAddress) {
    PHYSICAL_ADDRESS None;
    None.QuadPart = 0;
    return MmAllocateContiguousMemorySpecifyCache(NumberOfBytes, None, HighestAcceptableAddress, None, MmCached);
}

VOID MmFreeContiguousMemory(PVOID BaseAddress) {
    PIECE **At = &g_Contiguous, *Piece;
    Lock();
    while (*At != NULL && (*At)->Bytes != (BYTE *)BaseAddress) {
        At = &(*At)->Next;
    }
    Piece = *At;
    if (Piece != NULL) {
        *At = Piece->Next;
        g_VidmmCounts.PoolBlocks--;
        g_VidmmCounts.PoolBytes -= Piece->Size;
        free(Piece->Bytes);
        free(Piece);
    }
    Unlock();
    if (Piece == NULL) {
        VidmmReport("SHIM-POOL-FREE", "contiguous memory is freed that is not there: freed twice, or never allocated");
    }
}

VOID MmFreeContiguousMemorySpecifyCache(PVOID BaseAddress, SIZE_T NumberOfBytes, MEMORY_CACHING_TYPE CacheType) {
    (void)NumberOfBytes;
    (void)CacheType;
    MmFreeContiguousMemory(BaseAddress);
}

PHYSICAL_ADDRESS MmGetPhysicalAddress(PVOID BaseAddress) {
    PHYSICAL_ADDRESS Address;
    PIECE *Piece;
    Address.QuadPart = 0;
    Lock();
    Piece = FindPiece(g_Contiguous, BaseAddress);
    if (Piece != NULL) {
        Address.QuadPart = (LONGLONG)(Piece->Address + ((ULONG_PTR)BaseAddress - (ULONG_PTR)Piece->Bytes));
    }
    Unlock();
    if (Piece == NULL) {
        Address.QuadPart = (LONGLONG)g_VidmmHost->PhysicalAddressOf(BaseAddress);
    }
    return Address;
}

PVOID MmGetVirtualForPhysical(PHYSICAL_ADDRESS PhysicalAddress) {
    return VidmmContiguousBytes((UINT64)PhysicalAddress.QuadPart, 1);
}

VOID *VidmmContiguousBytes(UINT64 Address, SIZE_T Size) {
    PIECE *Piece;
    Lock();
    Piece = FindPhysical(g_Contiguous, Address, Size);
    Unlock();
    return Piece != NULL ? Piece->Bytes + (Address - Piece->Address) : NULL;
}

PPHYSICAL_MEMORY_RANGE MmGetPhysicalMemoryRanges(VOID) {
    PPHYSICAL_MEMORY_RANGE Ranges = (PPHYSICAL_MEMORY_RANGE)ExAllocatePoolZero(NonPagedPoolNx, 2 * sizeof(*Ranges), 0);
    if (Ranges != NULL) {
        Ranges->BaseAddress.QuadPart = PAGE_SIZE;
        Ranges->NumberOfBytes.QuadPart = (LONGLONG)(g_Highest + 1 - PAGE_SIZE);
    }
    return Ranges;
}

BOOLEAN MmIsAddressValid(PVOID VirtualAddress) {
    volatile BOOLEAN IsValid = TRUE;
    __try {
        (void)*(volatile BYTE *)VirtualAddress;
    }
    __except (EXCEPTION_EXECUTE_HANDLER) {
        IsValid = FALSE;
    }
    return IsValid;
}

/* ---- Registers ---- */

#define REGISTERS_ADDRESS 0x1F0000000ull
#define REGISTERS_BYTES (16u << 20)

VOID *VidmmMapRegisters(UINT64 Address, SIZE_T NumberOfBytes) {
    PIECE *Piece;
    VidmmCheckIrql("a mapping of registers", DISPATCH_LEVEL);
    if (Address - (UINT32)REGISTERS_ADDRESS < REGISTERS_BYTES) {
        VidmmReport("SHIM-REGISTERS", "registers are mapped at an address of the device that is cut to 32 bits");
    }
    Lock();
    Piece = FindPhysical(g_Registers, Address, NumberOfBytes);
    if (Piece == NULL && !VidmmFailsLocked() && (Piece = (PIECE *)malloc(sizeof(*Piece))) != NULL) {
        Piece->Bytes = NewPages(NumberOfBytes);
        Piece->Size = NumberOfBytes;
        Piece->Address = Address;
        Piece->Next = g_Registers;
        g_Registers = Piece;
    }
    Unlock();
    return Piece != NULL && Piece->Bytes != NULL ? Piece->Bytes + (Address - Piece->Address) : NULL;
}

PVOID MmMapIoSpace(PHYSICAL_ADDRESS PhysicalAddress, SIZE_T NumberOfBytes, MEMORY_CACHING_TYPE CacheType) {
    (void)CacheType;
    return VidmmMapRegisters((UINT64)PhysicalAddress.QuadPart, NumberOfBytes);
}

PVOID MmMapIoSpaceEx(PHYSICAL_ADDRESS PhysicalAddress, SIZE_T NumberOfBytes, ULONG Protect) {
    (void)Protect;
    return MmMapIoSpace(PhysicalAddress, NumberOfBytes, MmNonCached);
}

/* Registers keep the bytes: the device stays, mapped or unmapped. */
VOID MmUnmapIoSpace(PVOID BaseAddress, SIZE_T NumberOfBytes) {
    (void)BaseAddress;
    (void)NumberOfBytes;
}

/* ---- MDLs ---- */

PPFN_NUMBER MmGetMdlPfnArray(PMDL Mdl) {
    return Mdl->Pages;
}

ULONG MmGetMdlByteCount(PMDL Mdl) {
    return Mdl->ByteCount;
}

ULONG MmGetMdlByteOffset(PMDL Mdl) {
    return Mdl->ByteOffset;
}

PVOID MmGetMdlVirtualAddress(PMDL Mdl) {
    return (BYTE *)Mdl->StartVa + Mdl->ByteOffset;
}

/* Copies changed bytes of the driver to the pages, and unchanged bytes anew from the pages. */
static void Compare(const MAPPING *Mapping) {
    SIZE_T Page;
    for (Page = 0; Page < Mapping->Pages; Page++) {
        BYTE *Bytes = Mapping->Bytes + Page * PAGE_SIZE, *Seen = Mapping->Seen + Page * PAGE_SIZE;
        if (memcmp(Bytes, Seen, PAGE_SIZE) != 0) {
            g_VidmmHost->WriteSystemPage(Mapping->Mdl->Pages[Page], Bytes);
        } else {
            g_VidmmHost->ReadSystemPage(Mapping->Mdl->Pages[Page], Bytes);
        }
        memcpy(Seen, Bytes, PAGE_SIZE);
    }
}

void VidmmCompareMappings(void) {
    const MAPPING *Mapping;
    for (Mapping = g_Mappings; Mapping != NULL; Mapping = Mapping->Next) {
        Compare(Mapping);
    }
}

static MAPPING *NewMapping(PMDL Mdl) {
    MAPPING *Mapping = (MAPPING *)calloc(1, sizeof(*Mapping));
    if (Mapping == NULL) {
        return NULL;
    }
    Mapping->Mdl = Mdl;
    Mapping->Pages = BYTES_TO_PAGES(Mdl->ByteOffset + Mdl->ByteCount);
    Mapping->Bytes = NewPages(Mapping->Pages * PAGE_SIZE);
    Mapping->Seen = NewPages(Mapping->Pages * PAGE_SIZE);
    if (Mapping->Bytes == NULL || Mapping->Seen == NULL) {
        free(Mapping->Bytes);
        free(Mapping->Seen);
        free(Mapping);
        return NULL;
    }
    return Mapping;
}

PVOID MmMapLockedPagesSpecifyCache(PMDL Mdl, KPROCESSOR_MODE AccessMode, MEMORY_CACHING_TYPE CacheType, PVOID RequestedAddress,
                                   ULONG BugCheckOnFailure, ULONG Priority) {
    MAPPING *Mapping;
    BOOLEAN Fails;
    (void)AccessMode;
    (void)CacheType;
    (void)RequestedAddress;
    (void)BugCheckOnFailure;
    (void)Priority;
    VidmmCheckIrql("MmMapLockedPagesSpecifyCache", DISPATCH_LEVEL);
    if (Mdl->Pages == NULL || (Mdl->MdlFlags & MDL_SOURCE_IS_NONPAGED_POOL) != 0) {
        return MmGetMdlVirtualAddress(Mdl);
    }
    Lock();
    Fails = VidmmFailsLocked();
    Unlock();
    if (Fails || (Mapping = NewMapping(Mdl)) == NULL) {
        return NULL;
    }
    Compare(Mapping);
    Mapping->Next = g_Mappings;
    g_Mappings = Mapping;
    Mdl->MdlFlags |= MDL_MAPPED_TO_SYSTEM_VA;
    Mdl->MappedSystemVa = Mapping->Bytes + Mdl->ByteOffset;
    return Mdl->MappedSystemVa;
}

PVOID MmGetSystemAddressForMdlSafe(PMDL Mdl, ULONG Priority) {
    if ((Mdl->MdlFlags & MDL_MAPPED_TO_SYSTEM_VA) != 0) {
        return Mdl->MappedSystemVa;
    }
    return MmMapLockedPagesSpecifyCache(Mdl, KernelMode, MmCached, NULL, FALSE, Priority);
}

/* Ends the mappings of an MDL. Returns whether a mapping has ended. */
static BOOLEAN Unmap(PMDL Mdl) {
    MAPPING **At = &g_Mappings;
    BOOLEAN WasMapped = FALSE;
    while (*At != NULL) {
        MAPPING *Mapping = *At;
        if (Mapping->Mdl != Mdl) {
            At = &Mapping->Next;
            continue;
        }
        *At = Mapping->Next;
        Compare(Mapping);
        free(Mapping->Bytes);
        free(Mapping->Seen);
        free(Mapping);
        WasMapped = TRUE;
    }
    Mdl->MdlFlags &= (CSHORT)~MDL_MAPPED_TO_SYSTEM_VA;
    Mdl->MappedSystemVa = NULL;
    return WasMapped;
}

VOID MmUnmapLockedPages(PVOID BaseAddress, PMDL Mdl) {
    (void)BaseAddress;
    if ((Mdl->MdlFlags & MDL_SOURCE_IS_NONPAGED_POOL) == 0 && !Unmap(Mdl)) {
        VidmmReport("SHIM-MDL", "the pages of an MDL are unmapped that are not mapped");
    }
}

void VidmmRetireMdl(PMDL Mdl) {
    Unmap(Mdl);
}

PMDL IoAllocateMdl(PVOID VirtualAddress, ULONG Length, BOOLEAN SecondaryBuffer, BOOLEAN ChargeQuota, PIRP Irp) {
    PMDL Mdl = (PMDL)ExAllocatePoolZero(NonPagedPoolNx, sizeof(*Mdl), 0);
    (void)SecondaryBuffer;
    (void)ChargeQuota;
    (void)Irp;
    if (Mdl != NULL) {
        Mdl->Size = sizeof(*Mdl);
        Mdl->ByteOffset = (ULONG)((ULONG_PTR)VirtualAddress % PAGE_SIZE);
        Mdl->StartVa = (BYTE *)VirtualAddress - Mdl->ByteOffset;
        Mdl->ByteCount = Length;
    }
    return Mdl;
}

VOID IoFreeMdl(PMDL Mdl) {
    free(Mdl->Pages);
    ExFreePool(Mdl);
}

/* Contiguous memory has physical page numbers; other memory of the driver has numbers of no page. */
VOID MmBuildMdlForNonPagedPool(PMDL Mdl) {
    SIZE_T Count = BYTES_TO_PAGES(Mdl->ByteOffset + Mdl->ByteCount), Page;
    free(Mdl->Pages);
    Mdl->Pages = (PFN_NUMBER *)calloc(Count + GUARD_PAGES, sizeof(PFN_NUMBER));
    for (Page = 0; Mdl->Pages != NULL && Page < Count + GUARD_PAGES; Page++) {
        UINT64 Address = Page < Count ? (UINT64)MmGetPhysicalAddress((BYTE *)Mdl->StartVa + Page * PAGE_SIZE).QuadPart : 0;
        Mdl->Pages[Page] = (PFN_NUMBER)(Address != 0 ? Address >> PAGE_SHIFT : NO_PAGE);
    }
    Mdl->MdlFlags |= MDL_SOURCE_IS_NONPAGED_POOL;
    Mdl->MappedSystemVa = MmGetMdlVirtualAddress(Mdl);
}

VOID MmProbeAndLockPages(PMDL Mdl, KPROCESSOR_MODE AccessMode, LOCK_OPERATION Operation) {
    (void)AccessMode;
    (void)Operation;
    MmBuildMdlForNonPagedPool(Mdl);
    Mdl->MdlFlags |= MDL_PAGES_LOCKED;
}

VOID MmUnlockPages(PMDL Mdl) {
    if ((Mdl->MdlFlags & MDL_PAGES_LOCKED) == 0) {
        VidmmReport("SHIM-MDL", "the pages of an MDL are unlocked that are not locked");
    }
    Mdl->MdlFlags &= (CSHORT)~MDL_PAGES_LOCKED;
}

PMDL MmAllocatePagesForMdlEx(PHYSICAL_ADDRESS Low, PHYSICAL_ADDRESS High, PHYSICAL_ADDRESS Skip, SIZE_T TotalBytes,
                             MEMORY_CACHING_TYPE CacheType, ULONG Flags) {
    PHYSICAL_ADDRESS None;
    PVOID Bytes;
    PMDL Mdl;
    (void)Skip;
    (void)Flags;
    None.QuadPart = 0;
    Bytes = MmAllocateContiguousMemorySpecifyCache(ROUND_TO_PAGES(TotalBytes), Low, High, None, CacheType);
    if (Bytes == NULL) {
        return NULL;
    }
    Mdl = IoAllocateMdl(Bytes, (ULONG)ROUND_TO_PAGES(TotalBytes), FALSE, FALSE, NULL);
    if (Mdl == NULL) {
        MmFreeContiguousMemory(Bytes);
        return NULL;
    }
    MmBuildMdlForNonPagedPool(Mdl);
    return Mdl;
}

/* The MDL itself is freed by ExFreePool. */
VOID MmFreePagesFromMdl(PMDL Mdl) {
    MmFreeContiguousMemory(Mdl->StartVa);
    free(Mdl->Pages);
    Mdl->Pages = NULL;
}

VOID KeFlushIoBuffers(PMDL Mdl, BOOLEAN ReadOperation, BOOLEAN DmaOperation) {
    (void)Mdl;
    (void)ReadOperation;
    (void)DmaOperation;
}

/* ---- The resources of the device ---- */

const VOID *VidmmResources(void) {
    static struct {
        CM_RESOURCE_LIST List;
        CM_PARTIAL_RESOURCE_DESCRIPTOR More;
    } Resources;
    CM_PARTIAL_RESOURCE_LIST *List = &Resources.List.List[0].PartialResourceList;
    CM_PARTIAL_RESOURCE_DESCRIPTOR *Descriptors = List->PartialDescriptors;
    Resources.List.Count = 1;
    Resources.List.List[0].InterfaceType = 5; /* PCIBus */
    List->Version = List->Revision = 1;
    List->Count = 2;
    Descriptors[0].Type = CmResourceTypeMemory;
    Descriptors[0].u.Memory.Start.QuadPart = (LONGLONG)REGISTERS_ADDRESS;
    Descriptors[0].u.Memory.Length = REGISTERS_BYTES;
    Descriptors[1].Type = CmResourceTypeInterrupt;
    Descriptors[1].u.Interrupt.Level = DIRQL;
    return &Resources.List;
}
