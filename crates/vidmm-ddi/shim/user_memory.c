/*
 * Memory of a user that a driver reads in Render, and guards by __try (DRV-12). Vanished memory: the bytes exist, and no access is
 * allowed. Changing memory: at one moment of the call, the bytes read so far get other
 * values.
 */
#define _GNU_SOURCE /* for dladdr and the registers of a fault */
#include "shim.h"

#include <dlfcn.h>
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>

#define KINDS 2

static struct {
    BYTE *Pages;
    SIZE_T Size;
} g_Copies[KINDS];

/* The copy at Number, which no access reaches; NULL without memory. */
static VOID *NewCopy(UINT Number, const VOID *Bytes, SIZE_T Size) {
    SIZE_T Whole = ROUND_TO_PAGES(Size > 0 ? Size : 1);
    if (g_Copies[Number].Size < Whole) {
        VOID *Pages = mmap(NULL, Whole, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (Pages == MAP_FAILED) {
            return NULL;
        }
        if (g_Copies[Number].Pages != NULL) {
            munmap(g_Copies[Number].Pages, g_Copies[Number].Size);
        }
        g_Copies[Number].Pages = (BYTE *)Pages;
        g_Copies[Number].Size = Whole;
    }
    if (mprotect(g_Copies[Number].Pages, g_Copies[Number].Size, PROT_READ | PROT_WRITE) != 0) {
        return NULL;
    }
    memcpy(g_Copies[Number].Pages, Bytes, Size);
    return mprotect(g_Copies[Number].Pages, g_Copies[Number].Size, PROT_NONE) == 0 ? g_Copies[Number].Pages : NULL;
}

static BOOLEAN IsInCopy(const VOID *Address) {
    UINT Number;
    for (Number = 0; Number < KINDS; Number++) {
        if ((ULONG_PTR)Address - (ULONG_PTR)g_Copies[Number].Pages < g_Copies[Number].Size) {
            return TRUE;
        }
    }
    return FALSE;
}

/* ---- Memory that changes ---- */

/* A change adds this number to a byte. */
#define CHANGE 0x55

#if defined(__x86_64__) && defined(REG_RIP)

/* The trap behind the next instruction. */
#define TRAP_FLAG 0x100

static BOOLEAN g_Changes;
/* The moment at which the bytes change, counted from 1; 0 is never. */
static UINT64 g_Moment;
static BOOLEAN g_IsOfCopies, g_HasChanged;
/* Moments so far: all, and the moments at which a function of the C library begins to read. */
static UINT64 g_Moments[2];
/* One byte of each access so far. */
static BYTE *g_Read[1 << 14];
static UINT g_ReadCount;
/* The call of the C library that reads; 0 for the driver's own instructions. */
static ULONG_PTR g_Copying;
/* The running instruction reads. */
static BOOLEAN g_IsReading;
static struct sigaction g_BeforeTrap;

static void Protect(int Protection) {
    UINT Number;
    for (Number = 0; Number < KINDS; Number++) {
        if (g_Copies[Number].Pages != NULL) {
            mprotect(g_Copies[Number].Pages, g_Copies[Number].Size, Protection);
        }
    }
}

static BOOLEAN IsOfDriver(const VOID *Instruction) {
    static ULONG_PTR Page;
    static BOOLEAN Is;
    Dl_info Own, Library;
    if (Page != (ULONG_PTR)Instruction / PAGE_SIZE + 1) {
        Page = (ULONG_PTR)Instruction / PAGE_SIZE + 1;
        Is = dladdr((const VOID *)&g_Changes, &Own) && dladdr(Instruction, &Library) && Own.dli_fbase == Library.dli_fbase;
    }
    return Is;
}

static ULONG_PTR CopyOf(const ucontext_t *Context) {
    const ULONG_PTR *Stack = (const ULONG_PTR *)Context->uc_mcontext.gregs[REG_RSP];
    return IsOfDriver((const VOID *)Context->uc_mcontext.gregs[REG_RIP]) ? 0 : (ULONG_PTR)Stack ^ *Stack;
}

/* The instruction has read its bytes. */
static void OnTrap(int Signal, siginfo_t *Info, VOID *Context) {
    (void)Info;
    if (!g_IsReading) {
        sigaction(Signal, &g_BeforeTrap, NULL);
        return;
    }
    ((ucontext_t *)Context)->uc_mcontext.gregs[REG_EFL] &= ~(greg_t)TRAP_FLAG;
    g_IsReading = FALSE;
    Protect(PROT_NONE);
}

/*
 * At a moment a driver may begin to read anew: a function of the C library begins or ends to read, or the driver goes back. A copy of
 * the C library reads some bytes twice, and counts as one read.
 */
static BOOLEAN IsChangeDue(BYTE *Address, ULONG_PTR Copying) {
    BOOLEAN IsCopy = Copying != 0 && Copying != g_Copying;
    BOOLEAN IsBack = g_ReadCount > 0 && Address < g_Read[g_ReadCount - 1];
    BOOLEAN IsMoment = IsCopy || (Copying == 0 && (g_Copying != 0 || IsBack));
    g_Moments[0] += IsMoment;
    g_Moments[1] += IsCopy;
    return (g_IsOfCopies ? IsCopy : IsMoment) && g_Moments[g_IsOfCopies] == g_Moment;
}

BOOLEAN VidmmReadChanging(const VOID *Address, VOID *Context) {
    ULONG_PTR Copying;
    if (!g_Changes || g_IsReading || !IsInCopy(Address)) {
        return FALSE;
    }
    Protect(PROT_READ | PROT_WRITE);
    Copying = CopyOf((const ucontext_t *)Context);
    if (IsChangeDue((BYTE *)Address, Copying)) {
        while (g_ReadCount > 0) {
            *g_Read[--g_ReadCount] += CHANGE;
        }
        g_HasChanged = TRUE;
    }
    if (g_HasChanged || g_ReadCount == sizeof(g_Read) / sizeof(g_Read[0])) {
        return TRUE;
    }
    g_Copying = Copying;
    g_Read[g_ReadCount++] = (BYTE *)Address;
    g_IsReading = TRUE;
    ((ucontext_t *)Context)->uc_mcontext.gregs[REG_EFL] |= TRAP_FLAG;
    return TRUE;
}

VOID VidmmSetChange(UINT64 Moment, BOOLEAN IsOfCopies) {
    g_Moment = Moment;
    g_IsOfCopies = IsOfCopies;
}

UINT64 VidmmCountMoments(BOOLEAN OfCopies) {
    return g_Moments[OfCopies];
}

VOID *VidmmChangingCopy(UINT Number, const VOID *Bytes, SIZE_T Size) {
    struct sigaction Action;
    if (VIDMM_IS_SANITIZED) {
        return NULL;
    }
    memset(&Action, 0, sizeof(Action));
    Action.sa_sigaction = OnTrap;
    Action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigaction(SIGTRAP, &Action, g_Changes ? NULL : &g_BeforeTrap);
    g_Changes = TRUE;
    g_HasChanged = FALSE;
    g_IsReading = FALSE;
    g_ReadCount = 0;
    g_Copying = 0;
    g_Moments[0] = 0;
    g_Moments[1] = 0;
    return NewCopy(Number, Bytes, Size);
}

VOID *VidmmVanishedCopy(UINT Number, const VOID *Bytes, SIZE_T Size) {
    g_Changes = FALSE;
    return NewCopy(Number, Bytes, Size);
}

BOOLEAN VidmmHasVanished(const VOID *Address) {
    return !g_Changes && IsInCopy(Address);
}

#else

BOOLEAN VidmmReadChanging(const VOID *Address, VOID *Context) {
    (void)Address;
    (void)Context;
    return FALSE;
}

VOID VidmmSetChange(UINT64 Moment, BOOLEAN IsOfCopies) {
    (void)Moment;
    (void)IsOfCopies;
}

UINT64 VidmmCountMoments(BOOLEAN OfCopies) {
    (void)OfCopies;
    return 0;
}

VOID *VidmmChangingCopy(UINT Number, const VOID *Bytes, SIZE_T Size) {
    (void)Number;
    (void)Bytes;
    (void)Size;
    return NULL;
}

VOID *VidmmVanishedCopy(UINT Number, const VOID *Bytes, SIZE_T Size) {
    return NewCopy(Number, Bytes, Size);
}

BOOLEAN VidmmHasVanished(const VOID *Address) {
    return IsInCopy(Address);
}

#endif
