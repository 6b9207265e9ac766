/* Everything that vidmm has of the kernel is in ntddk.h. */
#include "ntddk.h"
