/* The commands of users, as vidmm_test.h has them, and their check in DxgkDdiRender. */
#ifndef COMMANDS_H
#define COMMANDS_H

#include "vidmm_test.h"

EXTERN_C_START

/* The bytes of an allocation that a device has open. */
typedef UINT64 SIZE_OF(HANDLE hDeviceSpecificAllocation);

/* What DxgkDdiRender answers: STATUS_SUCCESS if commands and patch locations are right. Slots below Slots may be named. */
NTSTATUS CheckCommands(const DXGKARG_RENDER *Render, UINT Slots, SIZE_OF *SizeOf);

EXTERN_C_END

#endif
