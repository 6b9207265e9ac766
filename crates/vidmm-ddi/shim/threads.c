/*
 * Threads of the driver's own, and handles.
 */
#include "shim.h"

#include <stdlib.h>

/* The thread, if it is one of the driver's own. */
static __thread VIDMM_OBJECT *g_Thread;

BOOLEAN VidmmIsOwnThread(void) {
    return g_Thread != NULL;
}

VIDMM_OBJECT *VidmmNewObject(VIDMM_KIND Kind) {
    VIDMM_OBJECT *Object = NULL;
    pthread_mutex_lock(&g_VidmmLock);
    if (!VidmmFailsLocked() && (Object = (VIDMM_OBJECT *)calloc(1, sizeof(*Object))) != NULL) {
        Object->Kind = Kind;
        Object->References = 1;
        Object->IsOpen = TRUE;
        g_VidmmCounts.OpenHandles++;
    }
    pthread_mutex_unlock(&g_VidmmLock);
    return Object;
}

/* With the lock held. */
static void Dereference(VIDMM_OBJECT *Object) {
    if (--Object->References == 0) {
        free(Object);
    }
}

static void EndThread(void) {
    VIDMM_OBJECT *Thread = g_Thread;
    pthread_mutex_lock(&g_VidmmLock);
    g_VidmmCounts.Threads--;
    Thread->Ended.Signaled = 1;
    VidmmEndTaskLocked(&Thread->Task);
    Dereference(Thread);
    pthread_cond_broadcast(&g_VidmmChanged);
    pthread_mutex_unlock(&g_VidmmLock);
}

static void *RunThread(void *Argument) {
    g_Thread = (VIDMM_OBJECT *)Argument;
    VidmmBeginTask(&g_Thread->Task);
    g_Thread->StartRoutine(g_Thread->StartContext);
    EndThread();
    return NULL;
}

NTSTATUS PsCreateSystemThread(PHANDLE ThreadHandle, ULONG DesiredAccess, POBJECT_ATTRIBUTES ObjectAttributes, HANDLE ProcessHandle,
                              PVOID ClientId, PKSTART_ROUTINE StartRoutine, PVOID StartContext) {
    pthread_t Thread;
    int Failed;
    VIDMM_OBJECT *Object = VidmmNewObject(VidmmThread);
    (void)DesiredAccess;
    (void)ObjectAttributes;
    (void)ProcessHandle;
    (void)ClientId;
    VidmmCheckIrql("PsCreateSystemThread", PASSIVE_LEVEL);
    if (Object == NULL) {
        return STATUS_NO_MEMORY;
    }
    Object->Ended.Type = NotificationEvent;
    Object->StartRoutine = StartRoutine;
    Object->StartContext = StartContext;
    Object->References++;
    pthread_mutex_lock(&g_VidmmLock);
    g_VidmmCounts.Threads++;
    VidmmAddTaskLocked(&Object->Task);
    pthread_mutex_unlock(&g_VidmmLock);
    VidmmPauseStack();
    Failed = pthread_create(&Thread, NULL, RunThread, Object);
    VidmmResumeStack();
    if (Failed != 0) {
        pthread_mutex_lock(&g_VidmmLock);
        g_VidmmCounts.Threads--;
        g_VidmmCounts.OpenHandles--;
        VidmmEndTaskLocked(&Object->Task);
        pthread_mutex_unlock(&g_VidmmLock);
        free(Object);
        return STATUS_NO_MEMORY;
    }
    pthread_detach(Thread);
    *ThreadHandle = Object;
    return STATUS_SUCCESS;
}

NTSTATUS PsTerminateSystemThread(NTSTATUS ExitStatus) {
    (void)ExitStatus;
    VidmmCheckIrql("PsTerminateSystemThread", PASSIVE_LEVEL);
    if (g_Thread == NULL) {
        return STATUS_INVALID_PARAMETER;
    }
    EndThread();
    pthread_exit(NULL);
}

NTSTATUS ObReferenceObjectByHandle(HANDLE Handle, ACCESS_MASK DesiredAccess, PVOID ObjectType, KPROCESSOR_MODE AccessMode,
                                   PVOID *Object, PVOID HandleInformation) {
    (void)DesiredAccess;
    (void)ObjectType;
    (void)AccessMode;
    (void)HandleInformation;
    VidmmCheckIrql("ObReferenceObjectByHandle", PASSIVE_LEVEL);
    if (Handle == NULL) {
        return STATUS_INVALID_HANDLE;
    }
    pthread_mutex_lock(&g_VidmmLock);
    ((VIDMM_OBJECT *)Handle)->References++;
    pthread_mutex_unlock(&g_VidmmLock);
    *Object = Handle;
    return STATUS_SUCCESS;
}

VOID ObReferenceObject(PVOID Object) {
    pthread_mutex_lock(&g_VidmmLock);
    ((VIDMM_OBJECT *)Object)->References++;
    pthread_mutex_unlock(&g_VidmmLock);
}

VOID ObDereferenceObject(PVOID Object) {
    VidmmCheckIrql("ObDereferenceObject", DISPATCH_LEVEL);
    pthread_mutex_lock(&g_VidmmLock);
    Dereference((VIDMM_OBJECT *)Object);
    pthread_mutex_unlock(&g_VidmmLock);
}

NTSTATUS ZwClose(HANDLE Handle) {
    VIDMM_OBJECT *Object = (VIDMM_OBJECT *)Handle;
    VidmmCheckIrql("ZwClose", PASSIVE_LEVEL);
    if (Object == NULL) {
        return STATUS_INVALID_HANDLE;
    }
    pthread_mutex_lock(&g_VidmmLock);
    g_VidmmCounts.OpenHandles -= Object->IsOpen;
    Object->IsOpen = FALSE;
    Dereference(Object);
    pthread_mutex_unlock(&g_VidmmLock);
    return STATUS_SUCCESS;
}
